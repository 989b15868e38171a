"""Explains what became of an event: for each statement that reads its type, the steps that it passed and where it was
rejected.

As for rows (`explain.why`), statements run again up to that event. If a statement cannot run again, because the log is
incomplete or a Python function would be called, the event is judged by the filters alone, with the present variables.

     context → filter or pattern → contained events → window → join / where → match → having → output

Each step yields a `ProbeStep`; the first step that fails ends the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.display import format_count
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.delivery.delta import Row
from cepbook.engine.expressions.primitives import TypedEvent, deep_copied
from cepbook.engine.inspection.evaluation import UnknownValue, evaluate
from cepbook.engine.patterns.atoms import atom_text
from cepbook.engine.runtime import Runtime
from cepbook.feeds import Feed
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.pattern import EVENT_STREAM as TAKEN
from cepbook.lang.plan.pattern import MATCH_STREAM, Atom
from cepbook.lang.plan.references import streams_read
from cepbook.lang.registry.windows import WINDOWS
from cepbook.session.explain.explanations import MAX_ROWS, EventExplanation, StatementOutcome
from cepbook.session.explain.provenance import ProvenanceEvent, stream_name
from cepbook.session.explain.rows_of_instant import checked_outcome, rehearsed_outcome
from cepbook.session.explain.why import named_partition, source_text, uncalled_functions_note
from cepbook.session.explain.why_not_inputs import contained_events_step, contained_where_steps, no_partition_reason
from cepbook.session.explain.why_not_matches import distinct_duplicate, partner_values, unmet_condition
from cepbook.session.explain.why_not_triggers import MAX_ROWS_TRIED, ProbeStep, TriggerProbe
from cepbook.session.history.event_log import HORIZON, EventLog, LogEntry
from cepbook.session.history.rerun_provenance import (
    EVENT,
    PARTITION,
    ProvenanceRerun,
    compared_leaves,
    compared_properties,
)
from cepbook.session.inspect.partial_matches import PartialMatch, partial_matches, pattern_tags
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.time_conversion import clock_text

MAX_RERUNS = 30  # maximum number of statements that run again for one question,
HAPPENING = 30_000  # and of log entries that all of them play


def explain_event(
    runtime: Runtime,
    event_log: EventLog,
    names: Sequence[str],
    event: LogEntry,
    *,
    hypothetical: bool,
    calls: bool,
    feed: Callable[[str], Feed | None] = lambda _: None,
) -> EventExplanation:
    """Return what became of an event at each of the statements `names`.

    If the log is incomplete, the deliveries that `feed` returns decide whether a rerun is right; for a `hypothetical`
    event those of a copy to which it was sent.
    """
    outcomes: list[StatementOutcome] = []
    reruns, played = 0, 0
    changes = [of for s in runtime.statements.values() for of, _ in s.plan.changed_properties]
    changed = any(runtime.catalog.is_a(event.type_name or "", of) for of in changes)
    with event_log.cached_reads():
        for name in names:
            outcome = None if changed else _at_once(runtime, name, event)
            if outcome is None:
                reruns += 1
                more = reruns <= MAX_RERUNS and played < HAPPENING
                outcome, size = _course(runtime, event_log, name, event, hypothetical, calls, feed, again=more)
                played += size
            outcomes.append(outcome)
    explained = ProvenanceEvent("", deep_copied(event.event), event.time, event.type_name)
    times = TimeColumns(runtime)
    timed = tuple(replace(item, times=tuple(times.of_statement(item.statement))) for item in outcomes)
    time_properties = tuple(times.of_type(explained.type_name or ""))
    return EventExplanation(explained, timed, hypothetical, runtime.config.second, time_properties)


def statements_reading(runtime: Runtime, type_name: str) -> list[str]:
    """Return the names of the statements that read events of a type."""
    return [name for name, statement in runtime.statements.items() if statement.reads(type_name)]


def _at_once(runtime: Runtime, name: str, event: LogEntry) -> StatementOutcome | None:
    target = runtime.statement(name).plan
    if target.projection is None or target.join is not None or target.context is not None:
        return None
    (source,) = target.sources
    condition = source.filter
    varying: tuple[type[x.BoundExpr], ...] = (x.VariableRead, x.CurrentTimestamp)
    if source.pattern is not None or any(x.find(kind, condition) for kind in varying):
        return None
    stages = tuple(_Judge(runtime, name, event, None, [event], False).filters())
    return StatementOutcome(name, "fell out", stages) if stages and stages[-1].passed is False else None


def _course(
    runtime: Runtime,
    event_log: EventLog,
    name: str,
    event: LogEntry,
    hypothetical: bool,
    calls: bool,
    feed: Callable[[str], Feed | None],
    *,
    again: bool,
) -> tuple[StatementOutcome, int]:
    target = runtime.statement(name).plan
    notes: list[str] = []
    run: ProvenanceRerun | None = None
    if not again:
        notes.append(f"not run again: at most {MAX_RERUNS} statements are, fewer of much; ask for this one by its name")
    elif isinstance(target, nodes.StreamStatement):
        run = ProvenanceRerun(runtime, event_log, target, shadows=True)
        if run.calls and not calls:
            notes.append(uncalled_functions_note(run.calls))
            run = None
    if run is not None and run.is_incomplete:
        begin = clock_text(run.begin, runtime.config.second)
        notes.append(f"what came before {begin} is not known, and left out: {HORIZON}")
    stimulus = None if run is None else _come_to(run, event, hypothetical)
    if run is not None and stimulus is None:
        notes.append(f"the event is not known any more ({HORIZON}), or the statement was deployed after it")
        run = None
    judge = _Judge(runtime, name, event, run, stimulus or [event], calls)
    stages = tuple(judge.stages())
    rows = tuple(judge.rows()) if run is not None else ()
    if run is None:
        unknown = "what its windows and patterns retained then is not known"
        stages = (*stages, ProbeStep("state", None, "", note=unknown))
    outcome = StatementOutcome(name, _outcome(stages, judge, run), stages, rows, tuple(notes))
    if run is not None and run.is_incomplete:
        rerun = ProvenanceRerun(runtime, event_log, run.target, shadows=False)
        outcome = (rehearsed_outcome if hypothetical else checked_outcome)(rerun, outcome, event.time, feed(name))
    return outcome, 0 if run is None else run.size


def _come_to(run: ProvenanceRerun, event: LogEntry, hypothetical: bool) -> list[LogEntry] | None:
    for log_entries in run.stimuli():
        if not hypothetical and any(entry.position == event.position for entry in log_entries):
            return log_entries if run.target.name in run.runtime.statements else None
        run.play_silently(log_entries)
    if hypothetical:
        run.advance_to_now()
    return [event] if hypothetical else None


def _outcome(stages: Sequence[ProbeStep], judge: _Judge, run: ProvenanceRerun | None) -> str:
    if judge.delivered:
        return "delivered"
    if any(stage.passed is False for stage in stages):
        return "kept" if judge.retained else "fell out"
    if run is not None and judge.retained:
        return "kept"
    return "not known" if run is None or any(stage.passed is None for stage in stages) else "kept"


class _Judge:
    """Follows one event through one statement. It sends the event on the way, in the runtime of `run`."""

    def __init__(
        self,
        origin: Runtime,
        name: str,
        event: LogEntry,
        run: ProvenanceRerun | None,
        stimulus: list[LogEntry],
        calls: bool,
    ) -> None:
        self._origin, self._name, self._event = origin, name, dict(event.event)
        self._runtime = origin if run is None else run.runtime
        self._happening, self._run, self._stimulus, self._calls = event, run, stimulus, calls
        self.plan = origin.statement(name).plan
        self.delivered = self.retained = False
        self._partials: list[PartialMatch] = []
        self._stored: dict[str, list[Row]] = {}
        self._ids: list[int] = []
        self._sizes_before: dict[int, int] = {}  # number of events in windows before, by stream
        self._streams = [0]  # streams whose filters the event passes

    def _send(self) -> None:
        run = self._run
        assert run is not None
        self._partials, self._stored = self._waiting(), run.store_rows()
        self._sizes_before = {n: len(run.window_rows(n) or []) for n in self._contained()}
        run.play(self._stimulus)
        of_type = [s for s in run.sent_events.values() if s.type_name == self._happening.type_name]
        last = of_type[-len(self._stimulus) :]
        self._event = next((s.event for s in last if s.event == self._event), self._event)
        self.delivered = bool(run.result.delivered)
        reached = run.result.reached
        if len(self._stimulus) == len(last) == 1 and reached and all(row[EVENT] is not self._event for row in reached):
            copies = [row[EVENT] for row in reached if row[EVENT].keys() == self._event.keys()]
            self._event = copies[0] if copies else self._event  # `update istream` has changed the event
        mine = [row for row in run.result.reached if row[EVENT] is self._event]
        self._ids = list(dict.fromkeys(row[PARTITION] for row in mine if PARTITION in row))

    def _contained(self) -> list[int]:
        sources = () if self.plan.projection is None else self.plan.sources
        return [n for n, source in enumerate(sources) if source.contained]

    def _waiting(self) -> list[PartialMatch]:
        runtime = self._runtime
        if self._name not in runtime.statements or pattern_tags(runtime, self._name) is None:
            return []
        return list(partial_matches(runtime, self._name).rows)

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the delivered rows."""
        assert self._run is not None
        for delta in self._run.result.delivered[:MAX_ROWS]:
            yield from (("+", deep_copied(dict(row))) for row in (delta.insert or ())[:MAX_ROWS])
            yield from (("−", deep_copied(dict(row))) for row in (delta.remove or ())[:MAX_ROWS])

    def stages(self) -> Iterator[ProbeStep]:
        """Return all steps up to the first that fails."""
        return _up_to_failure(self._all())

    def filters(self) -> Iterator[ProbeStep]:
        """Return the conditions of the filter up to the first that fails."""
        return _up_to_failure(self._filters())

    def _all(self) -> Iterator[ProbeStep]:
        target = self.plan
        filters = list(self._filters()) if self._pattern() is None else []  # with the variables before the event
        atoms = list(self._atoms()) if self._pattern() is not None else []
        if self._run is not None:
            self._send()
        if self._context is not None:
            yield self._context_stage()
            filters = list(self._filters()) if filters else []  # now the partition is known
        if self._pattern() is not None:
            yield from self._pattern_stages(atoms)
        else:
            sent = self._happening.event
            yield from filters if self._event == sent else self._filters()  # as `update istream` changed it
        if isinstance(target, nodes.SelectStatement) and self._run is not None:
            yield from self._behind(target)
        elif self._run is not None:
            yield from self._acting(self._run) if self._pattern() is None else ()
        else:
            yield from self._where(x.conjuncts(target.condition))

    @property
    def _context(self) -> str | None:
        name: str | None = getattr(self.plan, "context", None)
        return name

    def _pattern(self) -> Any:
        target = self.plan
        if target.join is not None:
            return None
        return target.source.pattern if isinstance(target, nodes.StreamStatement) else None

    def _acting(self, run: ProvenanceRerun) -> Iterator[ProbeStep]:
        target = self.plan
        rows = [] if target.lookup is None else self._stored.get(target.lookup.store.name, [])
        acting = TriggerProbe(run, self._event, rows, self._tested, self._text, self._calls)
        stages = list(acting.stages())
        self.delivered = self.delivered or acting.acted
        self.retained = acting.retained
        yield from stages

    def _takes(self, type_name: str) -> bool:
        return self._origin.catalog.is_a(self._happening.type_name or "", type_name)

    @property
    def _partition(self) -> ContextPartition | None:
        if self._context is None or self._context not in self._runtime.contexts:
            return None
        partitions = self._runtime.context(self._context).partitions.values()
        return next((partition for partition in partitions if partition.id in self._ids), None)

    def _tested(self, name: str, condition: x.BoundExpr, events: Mapping[int, Any], note: str = "") -> ProbeStep:
        options = {"partition": self._partition, "calls": self._calls}
        events = self._typed(events)
        value = evaluate(self._runtime, condition, events, **options)  # type: ignore[arg-type]
        values = []
        for leaf in compared_leaves(condition):
            leaf_value = evaluate(self._runtime, leaf, events, **options)  # type: ignore[arg-type]
            if not isinstance(leaf_value, UnknownValue):
                values.append((self._text(leaf), deep_copied(leaf_value)))
        if isinstance(value, UnknownValue):
            return ProbeStep(name, None, self._text(condition), tuple(values), note or value.reason)
        return ProbeStep(name, value is True, self._text(condition), tuple(values), note)

    def _typed(self, events: Mapping[int, Any]) -> Mapping[int, Any]:
        known = TypedEvent(self._happening.type_name or "", self._event)
        return {number: known if event is self._event else event for number, event in events.items()}

    def _text(self, e: Any) -> str:
        return source_text(self._origin, self._name, e)

    def _context_stage(self) -> ProbeStep:
        context = self._origin.catalog.contexts[self._context or ""]
        kind = f"{context.name} ({context.kind})"
        if self._run is None:
            return ProbeStep("context", None, kind, note="which partitions there were is not known")
        runtime = self._runtime
        rows = {row["id"]: row for row in runtime.partitions(context.name)} if context.name in runtime.contexts else {}
        if not self._ids:
            note = no_partition_reason(self._origin, context.name, self._happening.type_name or "")
            return ProbeStep("context", False, kind, note=note)
        named = named_partition(self._runtime, context.name, rows.get(self._ids[0]))
        values = tuple((key, value) for key, value in (named or {}).items() if key != "id")
        ids = ", ".join(map(str, self._ids))
        return ProbeStep("context", True, kind, values, f"partition{'s' * (len(self._ids) > 1)} {ids}")

    def _filters(self) -> Iterator[ProbeStep]:
        if not isinstance(self.plan, nodes.StreamStatement):
            return
        if self.plan.join is None:
            for condition in x.conjuncts(self.plan.source.filter):
                yield self._tested("filter", condition, {0: self._event})
            return
        mine = [n for n, s in enumerate(self.plan.sources) if s.pattern is None and self._takes(s.event_type)]
        tried: dict[int, list[ProbeStep]] = {}
        for number in mine:
            note = f"of `{stream_name(self.plan, number)}`"
            conditions = x.conjuncts(self.plan.sources[number].filter)
            tried[number] = [self._tested("filter", condition, {0: self._event}, note) for condition in conditions]
        self._streams = [n for n in mine if all(stage.passed is not False for stage in tried[n])]
        for number, stages in tried.items():
            for stage in stages:
                lost = self._streams and number not in self._streams and stage.passed is False
                yield replace(stage, passed=None, note=f"{stage.note}: no event for this stream") if lost else stage

    def _where(self, conjuncts: Sequence[x.BoundExpr]) -> Iterator[ProbeStep]:
        for conjunct in conjuncts:
            yield self._tested("where", conjunct, {0: self._event})

    def _atoms(self) -> Iterator[tuple[Atom, str]]:
        for atom in self._pattern().atoms:
            if self._takes(atom.event_type):
                yield atom, atom_text(atom)

    def _pattern_stages(self, atoms: Sequence[tuple[Atom, str]]) -> Iterator[ProbeStep]:
        if self._run is None:
            for atom, _ in atoms:
                own = [p for p in x.conjuncts(atom.filter) if MATCH_STREAM not in streams_read(p)]
                for conjunct in own:
                    yield self._tested("filter", conjunct, {TAKEN: self._event}, f"of {self._text(atom)}")
            return
        after = self._waiting()
        if self._context is not None:
            after = [item for item in after if item.partition in self._ids]
            before = [item for item in self._partials if item.partition in self._ids]
        else:
            before = self._partials
        begun = not before and self._context is not None  # the pattern of a new partition has just started
        taken = sum(map(self._has_event, after)) > sum(map(self._has_event, before))
        moved = self.retained = self.delivered or taken or (not begun and _known(after) != _known(before))
        before = before or (after if begun else [])
        waited = list(dict.fromkeys(item.waiting_for for item in before))
        steps: list[ProbeStep] = []
        for atom, pattern_text in atoms:
            waits = [item for item in before if item.waiting_for == pattern_text]
            if not waits:
                steps.append(ProbeStep("pattern", None, self._text(atom), note="the pattern did not wait for it"))
                continue
            steps += self._atom_stages(atom, waits)
        text = self._text(self._pattern()) or "the pattern"
        if moved:
            yield from (item for item in steps if item.passed is not False)
        else:
            yield from sorted(steps, key=lambda item: item.passed is False)
        waiting = list(dict.fromkeys(item.waiting_for for item in after))
        note = f"waits for {', '.join(waiting)}" if waiting else "waits for nothing any more"
        if not self.delivered:
            if not moved and not any(item.passed is False for item in steps):
                note = f"it waits for {', '.join(waited)}" if waited else "it waits for nothing any more"
                yield ProbeStep("pattern", False, text, note=note)
            elif moved:
                yield ProbeStep(
                    "pattern", False, text, note=f"the event is part of a match that is not complete: {note}"
                )

    def _has_event(self, partial: PartialMatch) -> bool:
        values = partial.events.values()
        return any(self._event in value if isinstance(value, list) else value == self._event for value in values)

    def _atom_stages(self, atom: Atom, waits: Sequence[PartialMatch]) -> Iterator[ProbeStep]:
        tried: list[ProbeStep] = []
        for partial in waits:
            events = {TAKEN: self._event, MATCH_STREAM: partial.events}
            stages = [self._tested("pattern", conjunct, events) for conjunct in x.conjuncts(atom.filter)]
            failed = next((stage for stage in stages if stage.passed is False), None)
            if failed is None:
                yield from stages or (ProbeStep("pattern", True, self._text(atom), note="any event of the type"),)
                return
            tried.append(failed)
        first = tried[0]
        more = f", and of {len(tried) - 1} more" if len(tried) > 1 else ""
        note = f"`{self._text(atom)}` was waited for{more}"
        yield ProbeStep(first.name, False, first.text, first.values, note)

    def _behind(self, target: nodes.SelectStatement) -> Iterator[ProbeStep]:
        run = self._run
        assert run is not None
        if self._pattern() is None:
            if target.join is None and not run.result.reached:
                yield ProbeStep(
                    "stream", False, target.source.event_type, note="another statement takes it away (@Drop)"
                )
                return
            yield from self._within_stages(target)
            yield from self._window_stages(target)
        if target.root.distinct and self.delivered:
            columns = tuple(run.runtime.statement(self._name).output_type.properties)
            equal = distinct_duplicate(run.result.rows, self._streams, self._event, columns)
            self.delivered, self.retained = equal is None, self.retained and equal is None
            yield from () if equal is None else (equal,)
        if target.join is not None:
            yield from self._join_stages(target)
        elif self._pattern() is None:
            derived = target.derived is not None or target.recognition is not None
            if not derived and target.source.contained:
                parts = nodes.where_conjuncts(target.root)
                yield from contained_where_steps(parts, self._own(run.result.contained.get(0, ())), self._tested)
            elif not derived:
                yield from self._where(nodes.where_conjuncts(target.root))
        if pattern_tags(self._runtime, self._name) is not None and self._pattern() is None and not self.delivered:
            after = self._waiting()
            self.retained = self.retained or any(map(self._has_event, after))
            node = target.recognition
            probe_arguments = self._event, self._value, self._tested
            lacks = None if self.retained or node is None else unmet_condition(node, self._partials, *probe_arguments)
            waiting = list(dict.fromkeys(partial.waiting_for for partial in after))
            note = f"waits for {', '.join(waiting)}" if waiting else "no match has begun"
            yield lacks or ProbeStep("match", False, "match_recognize", note=note)
            return
        if not self.delivered:
            yield from self._row_stages(target)

    def _own(self, rows: Sequence[Row]) -> list[Row]:
        return [row[EVENT] for row in rows if PARTITION not in row or row[PARTITION] in self._ids]

    def _within_stages(self, target: nodes.SelectStatement) -> Iterator[ProbeStep]:
        run = self._run
        assert run is not None
        for number, source in enumerate(target.sources):
            if source.contained and number in self._streams:
                inside, within = (
                    self._own(rows.get(number, ()))
                    for rows in (run.result.contained_before_where, run.result.contained)
                )
                text = "".join(map(self._text, source.contained)) or source.event_type
                yield contained_events_step(source, self._event, inside, len(within), self._tested, text)

    def _window_stages(self, target: nodes.SelectStatement) -> Iterator[ProbeStep]:
        run = self._run
        assert run is not None
        for number, stream in enumerate(nodes.streams(target.root)):
            windowed = nodes.stages(stream, nodes.Windowed)
            if not windowed or number not in run.windows or number not in self._streams:
                continue
            text = self._text(windowed[-1]) or ", ".join(f"#{w.name}" for w in windowed[-1].windows)
            name = f"{stream_name(target, number)}{text}" if target.join is not None else text
            now = [row for row in run.window_rows(number) or [] if PARTITION not in row or row[PARTITION] in self._ids]
            entered = [row for delta in run.result.window_changes.get(number, ()) for row in delta.insert or ()]
            batch = any(WINDOWS[w.name].batch for w in windowed[-1].windows if w.name in WINDOWS)
            if target.sources[number].contained:  # the window holds contained events, not the event itself
                enters, holds = bool(entered), len(now) > self._sizes_before.get(number, 0)
            else:
                holds = any(row[EVENT] is self._event for row in now)
                enters = any(row[EVENT] is self._event for row in entered)
            self.retained = self.retained or holds
            if enters:
                said = f"its batch of {len(entered):,} is released" if batch else f"it enters: {len(now):,} retained"
                yield ProbeStep("window", True, name, note=said)
            elif holds:
                yield ProbeStep("window", False, name, note=f"it waits in the batch: {len(now):,} collected")
            else:
                yield ProbeStep("window", False, name, note=f"the window does not take it: {len(now):,} retained")

    def _join_stages(self, target: nodes.SelectStatement) -> Iterator[ProbeStep]:
        run, join = self._run, target.join
        assert run is not None and join is not None
        if self.delivered:
            return
        own = self._streams
        parts = [("where", conjunct) for conjunct in nodes.where_conjuncts(target.root)]
        parts += [("join", conjunct) for join_input in join.inputs for conjunct in x.conjuncts(join_input.on)]
        for number in range(len(target.sources)):
            if number not in own and self._others(number) == []:
                what = "its window is empty" if target.sources[number].store is None else "it holds no rows"
                if run.is_incomplete:
                    begin = clock_text(run.begin, self._runtime.config.second)
                    what = f"what it retained is not known: events are kept from {begin} on"
                yield ProbeStep("join", None if run.is_incomplete else False, stream_name(target, number), note=what)
        left: dict[int, list[Row]] = {}  # rows of other streams with which all conditions so far are true
        for clause, conjunct in parts:
            streams = streams_read(conjunct)
            for mine in [n for n in own if n in streams][:1]:
                others = sorted(streams - {mine})
                if not others and not target.sources[mine].contained:
                    yield self._tested(clause, conjunct, {mine: self._event})
                elif len(others) == 1 and self._others(others[0]) is not None:
                    yield self._tried(target, conjunct, mine, others[0], left)

    def _others(self, number: int) -> list[Row] | None:
        run, target = self._run, self.plan
        assert run is not None
        store = target.sources[number].store
        if number in run.windows:
            return [row[EVENT] for row in run.window_rows(number) or []]
        return None if store is None else self._stored.get(store.name)

    def _tried(
        self, target: nodes.SelectStatement, part: x.BoundExpr, mine: int, other: int, left: dict[int, list[Row]]
    ) -> ProbeStep:
        if target.sources[mine].contained:
            return ProbeStep("join", None, self._text(part), note="it is for each of the events within")
        others = self._others(other) or []
        every = others[-MAX_ROWS_TRIED:]
        rows = left.get(other, every)
        said = [self._value(part, {mine: self._event, other: row}) for row in rows]
        unknown = next((answer for answer in said if isinstance(answer, UnknownValue)), None)
        if unknown is not None:
            return ProbeStep("join", None, self._text(part), note=unknown.reason)
        fits = sum(answer is True for answer in said)
        properties = compared_properties(part, mine)
        values = tuple((self._text(prop), self._value(prop, {mine: self._event})) for prop in properties)
        note = f"true of {fits:,} of {len(rows):,} events of `{stream_name(target, other)}`"
        if len(others) > len(every):
            note += f", the latest of {len(others):,}"
        if len(rows) < len(every):
            note += f" that were left of {len(every):,}"
        if not fits:
            values += tuple(partner_values(part, other, rows, self._value, self._text))
        untried = len(others) > len(every) and other not in left
        left[other] = [row for row, answer in zip(rows, said, strict=True) if answer is True]
        return ProbeStep("join", None if untried and not fits else fits > 0, self._text(part), values, note)

    def _value(self, e: x.BoundExpr, events: Mapping[int, Any]) -> Any:
        return evaluate(self._runtime, e, self._typed(events), self._partition, calls=self._calls)

    def _row_stages(self, target: nodes.SelectStatement) -> Iterator[ProbeStep]:
        run = self._run
        assert run is not None
        self.retained = self.retained or run.aggregation is not None
        before = [row for delta in run.result.before_output for row in delta.insert or ()]
        passed = before
        if run.having is not None:
            if not before:
                yield ProbeStep("having", None, self._text(run.having), note="no row was made for it to test")
                return
            for number, condition in enumerate(run.conditions):
                leaves = [self._text(leaf) for leaf in compared_leaves(condition)]
                row = before[-1]
                values = tuple((leaf, row.get(f"v{number}_{place}")) for place, leaf in enumerate(leaves))
                yield ProbeStep("having", row.get(f"c{number}") is True, self._text(condition), values)
            passed = [row for row in before if all(row.get(f"c{n}") is True for n in range(len(run.conditions)))]
        if target.output is not None:
            due = min((s["next_timer"] for s in self._runtime.state(self._name) if s["next_timer"]), default=None)
            rows = f"{len(passed):,} row{'s' * (len(passed) != 1)} held back"
            note = rows if due is None else f"{rows}, next due at {clock_text(due, self._runtime.config.second)}"
            self.retained = self.retained or bool(passed)
            yield ProbeStep("output", False, self._text(target.output), note=note)
        elif passed and target.root.limits:
            limits = (f"{keyword} {self._text(count)}" for keyword, ((count, _), *_) in target.root.limits)
            note = f"its row is left out; {format_count(len(passed), 'row')} made"
            yield ProbeStep("limit", False, " ".join(limits), note=note)
        elif target.selector == "rstream":
            self.retained = True
            yield ProbeStep("select", False, "rstream", note="only rows of events that leave are delivered")
        elif target.join is not None:
            of = "what is known" if run.is_incomplete else "events"
            note = f"no combination of {of} passes all conditions"
            yield ProbeStep("join", None if run.is_incomplete else False, "all conditions", note=note)
        else:
            yield ProbeStep("select", False, "the select-clause", note="no row was made")


def _up_to_failure(stages: Iterable[ProbeStep]) -> Iterator[ProbeStep]:
    for stage in stages:
        yield stage
        if stage.passed is False:
            return


def _known(partials: Sequence[PartialMatch]) -> list[tuple[object, ...]]:
    return [(p.partition, p.waiting_for, p.since, repr(p.events)) for p in partials]


def known_events(event_log: EventLog, runtime: Runtime, type_names: Sequence[str]) -> list[LogEntry]:
    """Return the known events of these types, oldest first."""
    entries = event_log.entries_since((0, 0), set(type_names), runtime.catalog.event_types)
    return [entry for entry in entries if entry.type_name is not None]
