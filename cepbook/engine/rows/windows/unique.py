"""``unique(k, …)``: the last event for each key; a newer event of the key pushes out the older. Null is a key.

::

    unique(k)
    arrivals   a1  b1  a2
    contents   a1  a1b1  b1a2
    leaves             a1
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import Sliding


def _arrive(code: Code, w: str, item: str, drops: bool) -> str | None:
    window = code.shape.window
    assert window is not None
    code.source.line(f"uk = {code.window_key(code.arriving(), window.args)}")
    if drops:
        code.source.line(f"old = {w}.pop(uk, GONE)")
    code.source.line(f"{w}[uk] = {item}")
    return "old" if drops else None


WINDOW = Sliding(fresh=lambda code: "{}", arrive=_arrive, contents=lambda w: f"{w}.values()")
