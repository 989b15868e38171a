"""Code of deliveries: the stream selector of the statement decides which rows go where."""

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
    """Writes ``out(record)`` for a single insert row, else ``push(now, insert rows, remove rows)``. In the loop over
    columns both also get the mark of the event. `now` is the code of the time. With `guarded` both may be None, if
    there is no listener; then no rows are made.
    """

    def __init__(self, code: CodegenContext, now: str, *, guarded: bool) -> None:
        self._code = code
        self._now = now
        self._guarded = guarded
        insert = code.steps.emit.insert
        # rows for a table of the context are placed partition by partition
        self._place = code.source.bind("place_rows", None) if insert is not None and insert.inside else None

    def row(self, scope: CodeScope) -> None:
        """Deliver the row of `scope` as the only insert row."""
        source, steps = self._code.source, self._code.steps
        if self._code.arranged or self._place:
            self(f"[{self._code.row(scope)}]", None)
        elif steps.delivered_selector != "rstream":
            with source.block("if out:") if self._guarded else nullcontext():
                source.line(f"out({self._code.record(scope, self._now)})", steps.projection.span)

    def __call__(self, insert: str | None, remove: str | None, *, arranged: bool = False) -> None:
        """Deliver rows, given the code of lists (names: of lists or None); None for a side without rows. `arranged`:
        they are in order and limited already.
        """
        source, steps = self._code.source, self._code.steps
        if steps.delivered_selector == "rstream":
            insert, remove = remove, None
        elif steps.delivered_selector == "istream":
            remove = None
        if insert is None and remove is None:
            return
        if self._code.arranged and not arranged:
            for name, code in (("ins", insert), ("rem", remove)):
                if code is not None:
                    source.line(f"{name} = arrange({code})")
            insert, remove = insert and "ins", remove and "rem"
        with self._if_any([code for code in (insert, remove) if code is not None and code.isidentifier()]):
            sides = f"{_or_none(insert)}, {_or_none(remove)}"
            mark = ", mark" if self._code.in_column_loop else ""
            source.line(f"push({self._now}, {sides}{mark})", steps.projection.span)
            if self._place:
                source.line(f"{self._place}(S.partition, {sides})", steps.projection.span)

    def _if_any(self, names: list[str]) -> AbstractContextManager[None]:
        conditions = ["push"] if self._guarded else []
        if names:
            if self._code.steps.posts_empty_batches:
                names.append("forced")
            conditions.append(names[0] if len(names) == 1 else f"({' or '.join(names)})")
        return self._code.source.block(f"if {' and '.join(conditions)}:") if conditions else nullcontext()


class ColumnEmitter(Emitter):
    """Writes into `run` where each event that passes the filter delivers one insert row: columns, not records.

    Columns of the batch are passed on as they are; values of others are appended to lists, ``y0`` and so on. ``run``
    returns which events gave a row (None: all), and the columns; those of the batch contain all events. The filter is
    evaluated for all events in advance, unless ``prefiltered`` is true.
    """

    def __init__(self, code: CodegenContext, scope: CodeScope, names: Sequence[str]) -> None:
        """`scope` is that of the arriving event, `names` are the properties that are read."""
        super().__init__(code, "now", guarded=False)
        self._scope = scope
        self._names = names
        self._batch_columns = {f"p{i}": f"c{i}_" for i in range(len(names))}
        self._values = [column.value for column in code.steps.projection.columns]
        batch_columns = [self._of_slice(scope, e) for e in self._values]
        self._columns = [name or f"y{i}" for i, name in enumerate(batch_columns)]
        self._made = [f"y{i}" for i, name in enumerate(batch_columns) if name is None]

    def _of_slice(self, scope: CodeScope, e: x.BoundExpr) -> str | None:
        if is_hashable(e.type):
            e = e.of_group(self._code.steps.keys)
        return self._batch_columns.get(lower.value(scope, e)) if e.property_name else None

    def begin(self, *, loop: bool) -> None:
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
        """Write ``kept``: for each event, whether it passes."""
        names = [f"p{self._names.index(name)}" for name in lower.property_names(condition)]
        columns = [self._batch_columns[name] for name in names]
        of = columns[0] if len(columns) == 1 else f"zip({', '.join(columns)})"
        truth = lower.truth(self._scope, condition)
        source = self._code.source
        if not lower.may_fail(condition):
            of_event = f"[{truth} for {', '.join(names)} in {of}]"
            source.line(f"kept = None if prefiltered else {of_event}", condition.span)
            return
        source.line("kept = None if prefiltered else []")
        with source.block(f"for {', '.join(names)} in () if prefiltered else {of}:"):
            with source.block("try:"):
                source.line(f"kept.append({truth})", condition.span)
            with source.block("except Exception as failure:"):
                source.line("failed(failure)")
                source.line("kept.append(False)")

    def kept(self, rows: str) -> str:
        """Return the code of those of `rows` that pass the filter."""
        if self._code.steps.source.filter is None:
            return rows
        return f"{rows} if kept is None else {self._code.source.bind('_compress', compress)}({rows}, kept)"

    @property
    def needs_loop(self) -> bool:
        """True if rows have values that are not columns of the batch."""
        return bool(self._made)

    def row(self, scope: CodeScope) -> None:
        for name, e in zip(self._columns, self._values, strict=True):
            if name in self._made:
                self._code.source.line(f"{name}.append({lower.value(scope, e)})", e.span)

    def failed(self) -> None:
        """Write that the failed event gives no row, even if some of its values were appended."""
        source = self._code.source
        source.line("at = count - _length_hint(times) - 1")
        source.line("kept = kept or [True] * count")
        source.line("kept[at] = False")
        for name in self._made:
            source.line(f"del {name}[sum(kept[:at]) :]")

    def end(self) -> None:
        self._code.source.line(f"return kept, ({', '.join(self._columns)}{',' * (len(self._columns) == 1)})")


class RecordEmitter(Emitter):
    """Writes into functions of a batch: the rows of a delivery are collected as flat records for one call of ``out``. A
    side is a list, whose first record gets its mark once it is known to begin the delivery; or a tuple if there is at
    most one record. The mark of the delivery is in the local ``mark``.
    """

    def __init__(self, code: CodegenContext, now: str) -> None:
        super().__init__(code, now, guarded=False)
        self._one: dict[str, bool] = {}  # by written side: True if it is one record

    @staticmethod
    def suits(code: CodegenContext) -> bool:
        """Return whether rows are delivered as they are made: not ordered, held back or placed."""
        insert, steps = code.steps.emit.insert, code.steps
        placed = insert is not None and insert.inside
        return steps.enters_alone and steps.output is None and not code.arranged and not placed

    @property
    def _begins(self) -> str:
        return "rem" if self._code.steps.delivered_selector == "rstream" else "ins"

    def append(self, rows: str, scope: CodeScope, *, one: bool) -> None:
        """Write that the row of `scope` goes to `rows`: ``ins``, or a list that becomes ``rem``."""
        begins = rows == "ins" or self._begins == "rem"
        self._one["ins" if rows == "ins" else "rem"] = one
        mark = str(MORE if begins else GONE)
        if one:
            record = self._code.record(scope, self._now, "mark" if begins else mark)
            self._code.source.line(f"{rows} = {record}", self._code.steps.projection.span)
        else:
            record = self._code.record(scope, self._now, mark)
            self._code.source.line(f"{rows} += {record}", self._code.steps.projection.span)

    def __call__(self, insert: str | None, remove: str | None, *, arranged: bool = False) -> None:
        source, begins = self._code.source, self._begins
        span = self._code.steps.projection.span
        selector = self._code.steps.delivered_selector
        sides = {"istream": ("ins",), "rstream": ("rem",), "irstream": ("ins", "rem")}[selector]
        first, *then = [side for side in sides if side in self._one] or [""]  # one side may make no rows
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
