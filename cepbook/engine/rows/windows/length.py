"""``length(n)``: the last n events; an arrival pushes out the oldest.

::

    length(2)
    arrivals   a   b   c   d
    contents   a   ab  bc  cd
    leaves             a   b
"""

from __future__ import annotations

from collections import deque

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import positive
from cepbook.engine.rows.windows.form import General, Sliding, size
from cepbook.engine.rows.windows.view import Change, Item, Queue


def _fresh(code: Code) -> str:
    return f"{code.source.bind('_deque', deque)}()"


def _arrive(code: Code, w: str, item: str, drops: bool) -> str | None:
    window = code.shape.window
    assert window is not None
    size = code.parameter(window.args[0], positive)
    code.source.line(f"{w}.append({item})")
    if drops:
        code.source.line(f"old = {w}.popleft() if len({w}) > {size} else GONE")
        return "old"
    with code.source.block(f"if len({w}) > {size}:"):
        code.source.line(f"{w}.popleft()")
    return None


WINDOW = Sliding(fresh=_fresh, arrive=_arrive, contents=lambda w: w)


class Length(Queue):
    """The view of ``length``."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, item: Item, now: int) -> Change:
        items = self.items
        items.append(item)
        if len(items) <= self.size or (self.gone and len(self) <= self.size):
            return (item,), ()
        return (item,), (self.pop() if self.gone else items.popleft(),)


VIEW = General(lambda code, spec, at: f"{code.source.bind('_Length', Length)}({size(code, spec)})")
