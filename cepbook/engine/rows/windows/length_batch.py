"""``length_batch(n)``: collects n events, releases them together; the former batch leaves in the same delivery.

::

    length_batch(2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import positive
from cepbook.engine.rows.windows.form import Batch, General, size
from cepbook.engine.rows.windows.view import Change, Collecting, Item


def _arrive(code: Code, w: str, count: str) -> None:
    window = code.shape.window
    assert window is not None
    with code.source.block(f"if {count} >= {code.parameter(window.args[0], positive)}:"):
        code.source.line(f"release(S, {w}, now, ins, rem)")


WINDOW = Batch(grid=lambda code: "None", arrive=_arrive)


class LengthBatch(Collecting):
    """The view of ``length_batch``."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, item: Item, now: int) -> Change | None:
        self.items.append(item)
        return self.post() if len(self) >= self.size else None


VIEW = General(lambda code, spec, at: f"{code.source.bind('_LengthBatch', LengthBatch)}({size(code, spec)})")
