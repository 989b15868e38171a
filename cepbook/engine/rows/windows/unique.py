"""``unique(k, …)``: the last event for each key; a newer event of the key pushes out the older. Null is a key.

::

    unique(k)
    arrivals   a1  b1  a2
    contents   a1  a1b1  b1a2
    leaves             a1
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import General, Sliding, key
from cepbook.engine.rows.windows.view import Change, Item, View


def _arrive(code: Code, w: str, item: str, drops: bool) -> str | None:
    window = code.shape.window
    assert window is not None
    code.source.line(f"uk = {code.window_key(code.arriving(), window.args)}")
    if drops:
        code.source.line(f"old = {w}.pop(uk, GONE)")
    code.source.line(f"{w}[uk] = {item}")
    return "old" if drops else None


WINDOW = Sliding(fresh=lambda code: "{}", arrive=_arrive, contents=lambda w: f"{w}.values()")


class Unique(View):
    """The view of ``unique``; the key stands at position `at` of items."""

    __slots__ = ("at", "by_key")

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.by_key: dict[Any, Item] = {}

    def arrive(self, item: Item, now: int) -> Change:
        key = item[self.at]
        former = self.by_key.pop(key, None)
        self.by_key[key] = item
        return (item,), (() if former is None else (former,))

    def discard(self, item: Item) -> None:
        if self.by_key.get(item[self.at]) is item:
            del self.by_key[item[self.at]]

    def contents(self) -> Iterable[Item]:
        return self.by_key.values()

    def retained(self) -> int:
        return len(self.by_key)


VIEW = General(lambda code, spec, at: f"{code.source.bind('_Unique', Unique)}({at})", key)
