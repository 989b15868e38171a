"""``keepall``: every event stays.

::

    arrivals   a   b   c
    contents   a   ab  abc
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import General, Sliding
from cepbook.engine.rows.windows.view import Change, Item, Queue


def _arrive(code: Code, w: str, item: str, drops: bool) -> None:
    code.source.line(f"{w}.append({item})")


WINDOW = Sliding(fresh=lambda code: "[]", arrive=_arrive, contents=lambda w: w)


class KeepAll(Queue):
    """The view of ``keepall``."""

    __slots__ = ()

    def arrive(self, item: Item, now: int) -> Change:
        self.items.append(item)
        return (item,), ()


VIEW = General(lambda code, spec, at: f"{code.source.bind('_KeepAll', KeepAll)}()")
