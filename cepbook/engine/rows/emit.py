"""Writes the deliveries of one event or timer: which side goes where is the statement's stream selector."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.expr import Scope


class Emitter:
    """Writes into one function: ``out(record)`` for one insert row, else ``push(now, insert rows, remove rows)``.

    In the loop over columns both also get the mark of the event. `now` is the code of the time. With `guarded` both may
    be None, when nobody listens: no rows are built then.
    """

    def __init__(self, code: Code, now: str, *, guarded: bool) -> None:
        self._code = code
        self._now = now
        self._guarded = guarded
        insert = code.steps.apply.insert
        # rows for a table of the context leave each partition by themselves
        self._place = code.source.bind("place_rows", None) if insert is not None and insert.inside else None

    def row(self, scope: Scope) -> None:
        """Deliver the row of `scope` as the one insert row."""
        source, steps = self._code.source, self._code.steps
        if self._code.arranged or self._place:
            self(f"[{self._code.row(scope)}]", None)
        elif steps.delivers != "rstream":
            with source.block("if out:") if self._guarded else nullcontext():
                source.line(f"out({self._code.record(scope, self._now)})", steps.projection.span)

    def __call__(self, insert: str | None, remove: str | None) -> None:
        """Deliver rows; the codes of lists (names: of lists or None), None for a side without rows."""
        source, steps = self._code.source, self._code.steps
        if steps.delivers == "rstream":
            insert, remove = remove, None
        elif steps.delivers == "istream":
            remove = None
        if insert is None and remove is None:
            return
        if self._code.arranged:
            for name, code in (("ins", insert), ("rem", remove)):
                if code is not None:
                    source.line(f"{name} = arrange({code})")
            insert, remove = insert and "ins", remove and "rem"
        with self._if_any([code for code in (insert, remove) if code is not None and code.isidentifier()]):
            sides = f"{_or_none(insert)}, {_or_none(remove)}"
            mark = ", mark" if self._code.in_run else ""
            source.line(f"push({self._now}, {sides}{mark})", steps.projection.span)
            if self._place:
                source.line(f"{self._place}(S[0], {sides})", steps.projection.span)

    def _if_any(self, names: list[str]) -> AbstractContextManager[None]:
        """Under the condition that somebody listens and there are rows."""
        conditions = ["push"] if self._guarded else []
        if names:
            if self._code.steps.posts_nothing:
                names.append("forced")
            conditions.append(names[0] if len(names) == 1 else f"({' or '.join(names)})")
        return self._code.source.block(f"if {' and '.join(conditions)}:") if conditions else nullcontext()


def _or_none(code: str | None) -> str:
    if code is None:
        return "None"
    return f"{code} or None" if code.isidentifier() else code
