"""``keepall``: every event stays.

::

    arrivals   a   b   c
    contents   a   ab  abc
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import Sliding


def _arrive(code: Code, w: str, item: str, drops: bool) -> None:
    code.source.line(f"{w}.append({item})")


WINDOW = Sliding(fresh=lambda code: "[]", arrive=_arrive, contents=lambda w: w)
