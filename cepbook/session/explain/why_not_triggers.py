"""Explains what became of an event at statements that act on events: ``on … merge``, ``on … set``, split streams,
``update istream`` and cycle queries. These are the steps behind the filters of `explain.why_not`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.inspection.evaluation import UnknownValue, evaluate
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.session.history.rerun_provenance import ProvenanceRerun

MAX_ROWS_TRIED = 500  # maximum number of rows that a condition is tried on


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One step that an event has to pass: a ``context``, a ``filter``, a ``window``, ``where``, a ``join``, a
    ``pattern``, ``having``, ``limit``, ``output``, ``when`` of a merge, an ``insert`` of a split stream, a ``cycle``.

    `passed` is None if it is unknown. `text` is the condition or clause, `values` are the values that it compares.
    """

    name: str
    passed: bool | None
    text: str
    values: tuple[tuple[str, Any], ...] = ()
    note: str = ""


ConditionProbe = Callable[
    [str, x.BoundExpr, Mapping[int, Any]], ProbeStep
]  # step name, condition, events by stream -> step


@dataclass(slots=True)
class TriggerProbe:
    """The steps of one event at one statement. `rows` are the rows of a merge's target before the event.

    `acted`: the event led to something. `retained`: the statement retains it.
    """

    run: ProvenanceRerun
    event: Row
    rows: Sequence[Row]
    test: ConditionProbe
    text: Callable[[Any], str]
    calls: bool = False
    acted: bool = False
    retained: bool = False

    @property
    def _runtime(self) -> Runtime:
        return self.run.runtime

    def stages(self) -> Iterator[ProbeStep]:
        """Yield the steps behind the filter."""
        target = self.run.target
        if isinstance(target, nodes.MergeStatement):
            yield from self._merge(target)
        elif isinstance(target, nodes.SplitStatement):
            yield from self._split(target)
        elif isinstance(target, nodes.CycleStatement):
            yield from self._cycle(target)
        elif target.trigger is not None:
            stages = [self.test("where", conjunct, {0: self.event}) for conjunct in x.conjuncts(target.condition)]
            self.acted = all(stage.passed is True for stage in stages)
            yield from stages

    def _merge(self, target: nodes.MergeStatement) -> Iterator[ProbeStep]:
        fits = list(self.rows)
        if target.predicate is not None:
            tried = fits[-MAX_ROWS_TRIED:]
            said = [
                evaluate(self._runtime, target.predicate, {0: row, 1: self.event}, calls=self.calls) for row in tried
            ]
            unknown = next((answer for answer in said if isinstance(answer, UnknownValue)), None)
            if unknown is not None:
                yield ProbeStep("join", None, self.text(target.predicate), note=unknown.reason)
                return
            fits = [row for row, answer in zip(tried, said, strict=True) if answer is True]
            untried = len(self.rows) > MAX_ROWS_TRIED
            latest = f" (the latest of {len(self.rows):,})" if untried else ""
            note = f"true of {len(fits):,} of {len(tried):,} rows of `{target.target.name}`{latest}"
            goes_on = bool(fits) or any(branch.matched is not True for branch in target.branches)
            passed = None if untried and not fits else goes_on
            yield ProbeStep("join", passed, self.text(target.predicate), note=note)
        elif not fits and all(branch.matched is True for branch in target.branches):
            yield ProbeStep("join", False, target.target.name, note="it holds no rows")
        yield from self._branches(target, fits)

    def _branches(self, target: nodes.MergeStatement, fits: Sequence[Row]) -> Iterator[ProbeStep]:
        events = {0: fits[-1] if fits else {}, 1: self.event, 2: fits[-1] if fits else {}}
        of_kind = [branch for branch in target.branches if branch.matched is None or branch.matched == bool(fits)]
        tried: list[ProbeStep] = []
        for branch in of_kind:
            parts = x.conjuncts(branch.condition)
            parts += [p for action in branch.actions if len(branch.actions) == 1 for p in x.conjuncts(action.predicate)]
            stages = [self.test("when", conjunct, events) for conjunct in parts]
            failed = next((stage for stage in stages if stage.passed is not True), None)
            if failed is None:
                self.acted = True
                kinds = ", ".join(action.kind for action in branch.actions)
                yield from stages or (ProbeStep("when", True, kinds),)
                return
            tried.append(failed)
        if tried:
            yield tried[0]
        else:
            subject = "a row that matches" if fits else "an event that matches no row"
            yield ProbeStep("when", False, "", note=f"there is no branch for {subject}")

    def _split(self, target: nodes.SplitStatement) -> Iterator[ProbeStep]:
        tried: list[ProbeStep] = []
        for branch in target.branches:
            into = f"insert into {branch.insert.target}"
            if branch.contained:
                yield ProbeStep("insert", None, into, note="it is for each of the events within")
                continue
            stages = [self.test("insert", conjunct, {0: self.event}) for conjunct in x.conjuncts(branch.predicate)]
            failed = next((stage for stage in stages if stage.passed is not True), None)
            if failed is None:
                self.acted = True
                yield ProbeStep("insert", True, into, tuple(value for stage in stages for value in stage.values))
                if not target.output_all:
                    return
            else:
                tried.append(failed)
        if not self.acted:
            yield from tried[:1]

    def _cycle(self, target: nodes.CycleStatement) -> Iterator[ProbeStep]:
        cycle_state: Any = self._runtime.statement(target.name).state.view
        known = self._runtime.catalog
        of = self.run.sent_events[id(self.event)].type_name if id(self.event) in self.run.sent_events else ""
        for number, (partition, rows) in enumerate(zip(target.partitions, self.run.cycle_rows(), strict=True)):
            if not known.is_a(of, partition.source.event_type):
                continue
            event_columns = {name: self.event.get(name) for name in partition.columns}
            is_waiting = any(_agree(event_columns, values) for _, _, values in cycle_state.waiting[number])
            is_held = any(_agree(event_columns, row) for row in rows)
            self.retained = self.retained or is_waiting or is_held
            text = self.text(partition.source) or partition.source.event_type
            if is_waiting:
                note = f"it waits for a cycle: {cycle_state.weight:g} of the weight of one has come"
                yield ProbeStep("cycle", False, text, note=note)
            else:
                note = f"{len(rows):,} retained" if is_held else f"the window does not take it: {len(rows):,} retained"
                yield ProbeStep("window", is_held, text, note=note)
        if not self.run.result.delivered:
            yield ProbeStep("select", False, "the select-clause", note="the cycle made no row")


def _agree(event: Row, row: Row) -> bool:
    return all(name not in row or row[name] == value for name, value in event.items())
