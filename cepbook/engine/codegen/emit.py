"""Writes the deliveries of one event or timer: which side goes where is the statement's stream selector."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress
from operator import length_hint

from cepbook.engine.delivery.delta import GONE, MORE, REMOVE
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import is_hashable


class Emitter:
    """Writes into one function: ``out(record)`` for one insert row, else ``push(now, insert rows, remove rows)``.

    In the loop over columns both also get the mark of the event. `now` is the code of the time. With `guarded` both may
    be None, when nobody listens: no rows are built then.
    """

    def __init__(self, code: CodegenContext, now: str, *, guarded: bool) -> None:
        self._code = code
        self._now = now
        self._guarded = guarded
        insert = code.steps.emit.insert
        # rows for a table of the context leave each partition by themselves
        self._place = code.source.bind("place_rows", None) if insert is not None and insert.inside else None

    def row(self, scope: CodeScope) -> None:
        """Deliver the row of `scope` as the one insert row."""
        source, steps = self._code.source, self._code.steps
        if self._code.arranged or self._place:
            self(f"[{self._code.row(scope)}]", None)
        elif steps.delivered_selector != "rstream":
            with source.block("if out:") if self._guarded else nullcontext():
                source.line(f"out({self._code.record(scope, self._now)})", steps.projection.span)

    def __call__(self, insert: str | None, remove: str | None) -> None:
        """Deliver rows; the codes of lists (names: of lists or None), None for a side without rows."""
        source, steps = self._code.source, self._code.steps
        if steps.delivered_selector == "rstream":
            insert, remove = remove, None
        elif steps.delivered_selector == "istream":
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
            mark = ", mark" if self._code.in_column_loop else ""
            source.line(f"push({self._now}, {sides}{mark})", steps.projection.span)
            if self._place:
                source.line(f"{self._place}(S[0], {sides})", steps.projection.span)

    def _if_any(self, names: list[str]) -> AbstractContextManager[None]:
        """Under the condition that somebody listens and there are rows."""
        conditions = ["push"] if self._guarded else []
        if names:
            if self._code.steps.posts_empty_batches:
                names.append("forced")
            conditions.append(names[0] if len(names) == 1 else f"({' or '.join(names)})")
        return self._code.source.block(f"if {' and '.join(conditions)}:") if conditions else nullcontext()


class ColumnEmitter(Emitter):
    """Writes into `run` where each event that passes the filter is a delivery of one insert row: columns are collected,
    and no records made.

    Columns of the slice are handed on as they are; only the values of others are appended to lists, ``y0`` and so on.
    ``run`` then returns which events gave a row (None: all), and the columns; those of the slice have all events.
    The filter, which cannot fail, is asked for all events before the first is taken, if it was not ``asked`` before.
    """

    def __init__(self, code: CodegenContext, scope: CodeScope, names: Sequence[str]) -> None:
        """`scope` is that of the arriving event, whose properties `names` are read."""
        super().__init__(code, "now", guarded=False)
        self._scope = scope
        self._names = names
        self._given = {f"p{i}": f"c{i}_" for i in range(len(names))}
        self._values = [column.value for column in code.steps.projection.columns]
        found = [self._of_slice(scope, e) for e in self._values]
        self._columns = [name or f"y{i}" for i, name in enumerate(found)]
        self._made = [f"y{i}" for i, name in enumerate(found) if name is None]

    def _of_slice(self, scope: CodeScope, e: x.BoundExpr) -> str | None:
        if isinstance(e, x.KeyRef) and is_hashable(e.type):
            e = self._code.steps.keys[e.index]
        return self._given.get(lower.value(scope, e)) if isinstance(e, x.Prop) else None

    def begin(self, *, loop: bool) -> None:
        """Before the loop, if there is one."""
        source, condition = self._code.source, self._code.steps.source.filter
        if condition is None:
            source.line("kept = None")
        else:
            self._filter(condition)
        if not loop:
            return
        source.bind("_length_hint", length_hint)
        source.line("times = iter(times)")
        source.line("count = _length_hint(times)")
        for name in self._made:
            source.line(f"{name} = []")

    def _filter(self, condition: x.BoundExpr) -> None:
        """Write ``kept``: of each event whether it passes."""
        names = [f"p{self._names.index(name)}" for name in lower.property_names(condition)]
        given = [self._given[name] for name in names]
        of = given[0] if len(given) == 1 else f"zip({', '.join(given)})"
        truth = lower.truth(self._scope, condition)
        self._code.source.line(f"kept = None if asked else [{truth} for {', '.join(names)} in {of}]", condition.span)

    def kept(self, rows: str) -> str:
        """Code of those of `rows`, of which there is one for each event, that pass the filter."""
        if self._code.steps.source.filter is None:
            return rows
        return f"{rows} if kept is None else {self._code.source.bind('_compress', compress)}({rows}, kept)"

    @property
    def needs_loop(self) -> bool:
        """Whether rows have values that are no columns of the slice."""
        return bool(self._made)

    def row(self, scope: CodeScope) -> None:
        for name, e in zip(self._columns, self._values, strict=True):
            if name in self._made:
                self._code.source.line(f"{name}.append({lower.value(scope, e)})", e.span)

    def failed(self) -> None:
        """The event that failed gives no row; some of its values may be there."""
        source = self._code.source
        source.line("at = count - _length_hint(times) - 1")
        source.line("kept = kept or [True] * count")
        source.line("kept[at] = False")
        for name in self._made:
            source.line(f"del {name}[sum(kept[:at]) :]")

    def end(self) -> None:
        """Behind the loop."""
        self._code.source.line(f"return kept, ({', '.join(self._columns)}{',' * (len(self._columns) == 1)})")


class RecordEmitter(Emitter):
    """Writes into functions of a slice: the rows of a delivery are collected as records end to end, and ``out`` takes
    them together. So nothing is made for a row, and nothing but ``out`` is called for a delivery.

    A side is a list, of whose first record the mark is set when it is known to begin the delivery; or one record, a
    tuple, where there is no more than one. The mark of the delivery is in the local ``mark``.
    """

    def __init__(self, code: CodegenContext, now: str) -> None:
        super().__init__(code, now, guarded=False)
        self._one: dict[str, bool] = {}  # of the sides that have been written: whether it is one record

    @staticmethod
    def suits(code: CodegenContext) -> bool:
        """Whether rows are delivered as they are made: nobody arranges them, puts them aside or places them."""
        insert, steps = code.steps.emit.insert, code.steps
        placed = insert is not None and insert.inside
        return steps.enters_alone and steps.output is None and not code.arranged and not placed

    @property
    def _begins(self) -> str:
        """The side whose rows come first."""
        return "rem" if self._code.steps.delivered_selector == "rstream" else "ins"

    def append(self, rows: str, scope: CodeScope, *, one: bool) -> None:
        """Write that the row of `scope` goes to `rows`: ``ins``, or a list for what becomes ``rem``."""
        begins = rows == "ins" or self._begins == "rem"
        self._one["ins" if rows == "ins" else "rem"] = one
        mark = str(MORE if begins else GONE)
        if one:
            record = self._code.record(scope, self._now, "mark" if begins else mark)
            self._code.source.line(f"{rows} = {record}", self._code.steps.projection.span)
        else:
            record = self._code.record(scope, self._now, mark)
            self._code.source.line(f"{rows} += {record}", self._code.steps.projection.span)

    def __call__(self, insert: str | None, remove: str | None) -> None:
        source, begins = self._code.source, self._begins
        span = self._code.steps.projection.span
        sides = {"istream": ("ins",), "rstream": ("rem",), "irstream": ("ins", "rem")}[
            self._code.steps.delivered_selector
        ]
        first, *then = [side for side in sides if side in self._one] or [""]  # one of both may make no rows
        if first == begins:
            with source.block(f"if {first}:"):
                if not self._one[first]:
                    source.line(f"{first}[0] = mark")
                both = f"{first} + rem" if self._one[first] == self._one.get("rem") else f"[*{first}, *rem]"
                source.line(f"out({f'{both} if rem else {first}' if then else first})", span)
        if "rem" in (first, *then) and begins == "ins":
            with source.block("elif rem:" if first == begins else "if rem:"):
                if self._one["rem"]:
                    source.line(f"out((mark + {REMOVE}, *rem[1:]))", span)
                else:
                    source.line(f"rem[0] = mark + {REMOVE}")
                    source.line("out(rem)", span)


def _or_none(code: str | None) -> str:
    if code is None:
        return "None"
    return f"{code} or None" if code.isidentifier() else code
