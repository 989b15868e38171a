"""``lastevent``: the last event only; delivers as ``length(1)`` does."""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import General, Sliding
from cepbook.engine.rows.windows.length import Length


def _arrive(code: Code, w: str, item: str, drops: bool) -> str | None:
    if drops:
        code.source.line(f"old = {w}[0] if {w} else GONE")
    code.source.line(f"{w}[:] = ({item},)")
    return "old" if drops else None


def _remember(code: Code, w: str, item: str, drops: bool) -> None:
    code.source.line(f"{w}[:] = ({item},)")


WINDOW = Sliding(fresh=lambda code: "[]", arrive=_arrive, contents=lambda w: w)
# what `Config.iterable_unbound` keeps of an unbound stream: the last event is shown by the iterator, never leaves
REMEMBER = Sliding(fresh=lambda code: "[]", arrive=_remember, contents=lambda w: w)
VIEW = General(lambda code, spec, at: f"{code.source.bind('_Length', Length)}(1)")
