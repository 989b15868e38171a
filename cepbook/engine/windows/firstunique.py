"""``firstunique(k, …)``: the first event for each key; later ones of a key are refused. Null is a key.

::

    firstunique(k)
    arrivals   a1  b1    a2
    contents   a1  a1b1  a1b1

The first failed login of each user::

    select * from Login(failed)#firstunique(user)

A refused event has no effect: it enters no other window of the intersection, and no row is made of it. When a statement
deletes the event of a key, the next event of the key is the first again::

    arrivals   a1  a2  (a1 is deleted)   a3
    contents   a1  a1  -                 a3
"""

from __future__ import annotations

from cepbook.engine.windows.unique import UniqueWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, key, operands_at
from cepbook.engine.windows.window_view import Item, ViewDelta


class FirstUniqueWindow(UniqueWindow):
    """The view of ``firstunique``.

    It refuses an item whose key it holds, where ``unique`` replaces the former item.
    """

    refuses = True

    def arrive(self, item: Item, now: int) -> ViewDelta | None:  # type: ignore[override]
        if item[self.at] in self.by_key:
            return None
        self.by_key[item[self.at]] = item
        return (item,), ()


WINDOW = WindowCodegen(creates(FirstUniqueWindow, operands_at), key)
