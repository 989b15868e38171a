"""``length_batch(n)``: collects n events, releases them together; the former batch leaves in the same delivery.

::

    length_batch(2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import Batch


def _arrive(code: Code, w: str, count: str) -> None:
    window = code.shape.window
    assert window is not None
    with code.source.block(f"if {count} >= {code.parameter(window.args[0])}:"):
        code.source.line(f"release(S, {w}, now, ins, rem)")


WINDOW = Batch(grid=lambda code: "None", arrive=_arrive)
