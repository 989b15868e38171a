"""``firstunique(k, …)``: the first event for each key; later ones of a key are refused. Null is a key.

::

    firstunique(k)
    arrivals   a1  b1    a2
    contents   a1  a1b1  a1b1
"""

from __future__ import annotations

from cepbook.engine.rows.windows.form import Window, key
from cepbook.engine.rows.windows.unique import Unique
from cepbook.engine.rows.windows.view import Change, Item


class FirstUnique(Unique):
    """The view of ``firstunique``."""

    __slots__ = ()
    refuses = True

    def arrive(self, item: Item, now: int) -> Change | None:  # type: ignore[override]
        if item[self.at] in self.by_key:
            return None
        self.by_key[item[self.at]] = item
        return (item,), ()


WINDOW = Window(lambda code, spec, at: f"{code.source.bind('_FirstUnique', FirstUnique)}({at})", key)
