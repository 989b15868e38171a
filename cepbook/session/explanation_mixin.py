"""The methods of `Workbench` that explain rows and events (`session.explain`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, overload

from cepbook.argument_checks import short_repr
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.feeds import Feed
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.explain.explanations import EventExplanation, RowExplanation
from cepbook.session.explain.why import find_row
from cepbook.session.explain.why_not import explain_event, known_events, statements_reading
from cepbook.session.explain.why_replayed import explain_replayed_row, past_engine
from cepbook.session.history.event_log import LogEntry
from cepbook.session.history.rerun_provenance import DeliveredRow
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import find_type
from cepbook.session.io.time_conversion import TimeLike
from cepbook.session.replay_mixin import ReplayMixin

EventChoice = int | str | Mapping[str, Any]  # a number, the name of an event type, or properties


class _ChosenEvent(NamedTuple):
    """An event to explain, by the log of `engine`: the one with `number` (from 1) among those of the types.

    A `hypothetical` event was not sent: its properties are given, and it would come now.
    """

    entry: LogEntry
    engine: EngineHandle
    hypothetical: bool
    type_names: Sequence[str] = ()
    number: int = 0


class ExplanationMixin(ReplayMixin):
    """Methods that explain rows and events. Nothing changes, and Python functions are called only with `calls=True`.

    The methods find the row or event that is meant. To explain anything else, add a branch to `why` and a module beside
    `session.explain.why_not`.
    """

    @overload
    def why(
        self, name: str, event: None = None, *, row: int | None = None, at: TimeLike | None = None, calls: bool = False
    ) -> RowExplanation: ...
    @overload
    def why(
        self,
        name: str | None,
        event: EventChoice,
        *,
        type: str | None = None,
        at: TimeLike | None = None,
        calls: bool = False,
    ) -> EventExplanation: ...
    def why(
        self,
        name: str | None = None,
        event: Any = None,
        *,
        type: str | None = None,
        row: int | None = None,
        at: TimeLike | None = None,
        calls: bool = False,
    ) -> RowExplanation | EventExplanation:
        """Explain why statement `name` delivered a row, or what became of an `event` in that statement.

        The row is the last one, the last one up to the time `at` (inclusive), or the one with the index `row` in
        `changes(name)`, which counts from 0 (negative from the end). The explanation has its cause, partition and
        group, the events that led to it, and the contents of windows.

        The event is a number, the name of an event type (its last event), or a dict of properties of an event that
        would come now. Number 1 is the first event of the types that the statement reads, and -1 the last one, or the
        last one up to `at`, which may be any time of a replay with snapshots. Without a `name`, events of all types are
        numbered, and all statements that read the event explain it. The explanation has the first filter, context,
        window, where, join, pattern, having or output that the event did not pass, with the values; or the rows that it
        led to. With `type`, a number counts the events of this type only. A dict needs `type` if the statement reads
        several types, or without a name.

        A copy of the statement runs again over the events that the event log still has. `calls` allows it to call
        Python functions. Raises UsageError for unknown names, rows and events, and EventError for a dict that does not
        fit the type.
        """
        with self._lock:
            runtime = self._engine.runtime
            until = None if at is None else self._moment(at)
            if name is not None:
                runtime.statement(name)  # raises if it is unknown
            if event is None:
                if name is None:
                    raise UsageError("why of which statement, or of which event?")
                if type is not None:
                    raise UsageError("`type` is the type of an event: name an event, for example -1 for the last one")
                columns = tuple(runtime.statement(name).output_type.properties)
                delivered = find_row(self._engine.feed(name), name, columns, row, until)
                return self._explain_row(name, delivered, calls=calls)
            if row is not None:
                raise UsageError("give a row or an event, not both")
            chosen = self._choose_event(runtime, name, event, type, until)
            readers = statements_reading(runtime, chosen.entry.type_name or "")
            if name is not None and name not in readers:
                raise UsageError(f"`{name}` does not read events of type `{chosen.entry.type_name}`")
            names = readers if name is None else [name]
            explanation = self._explain_event(chosen, names, calls=calls)
            unknown = [course.statement for course in explanation.courses if course.outcome == "not known"]
            earlier = self._event_in_past(chosen) if unknown and not chosen.hypothetical else None
            if earlier is None:
                return explanation
            known = {course.statement: course for course in self._explain_event(earlier, unknown, calls=calls).courses}
            return replace(explanation, courses=tuple(known.get(c.statement, c) for c in explanation.courses))

    def _explain_event(self, chosen: _ChosenEvent, names: Sequence[str], *, calls: bool) -> EventExplanation:
        engine, entry, hypothetical = chosen.engine, chosen.entry, chosen.hypothetical
        names = [name for name in names if name in engine.runtime.statements]
        feed = self._rehearsed(entry, calls=calls) if hypothetical else self._engine.feed
        options: dict[str, Any] = {"hypothetical": hypothetical, "calls": calls, "feed": feed}
        return explain_event(engine.runtime, engine.event_log, names, entry, **options)

    def _rehearsed(self, event: LogEntry, *, calls: bool) -> Callable[[str], Feed | None]:
        """Return a function that returns the deliveries of a statement in a copy of the workbench to which an event was
        sent. It returns None if the copy would call Python functions, and if the state cannot be copied.
        """

        @cache
        def copy() -> EngineHandle | None:
            if self._functions and not calls:
                return None
            try:
                engine = self._restored(self._snapshot())._engine
                for name in engine.runtime.statements:
                    engine.feed(name).clear()
                engine.runtime.send(event.type_name or "", dict(event.event))
            except CepbookError:
                return None
            return engine

        return lambda name: None if (engine := copy()) is None else engine.feed(name)

    def _event_in_past(self, chosen: _ChosenEvent) -> _ChosenEvent | None:
        """Return the event with the log before it, to which a snapshot of the replay leads; None if none does."""
        past = past_engine(self._replay, chosen.entry.time)
        if past is None:
            return None
        known, forgotten = _latest(past, chosen.type_names)
        entry = known[index] if 0 <= (index := chosen.number - 1 - forgotten) < len(known) else None
        same = entry is not None and (entry.time, entry.event) == (chosen.entry.time, chosen.entry.event)
        return chosen._replace(entry=entry, engine=past) if entry is not None and same else None

    def _explain_row(self, name: str, delivered: DeliveredRow, *, calls: bool = False) -> RowExplanation:
        runtime, event_log = self._engine.runtime, self._engine.event_log
        explanation = explain_replayed_row(runtime, event_log, self._replay, name, delivered, calls=calls)
        times = TimeColumns(runtime)  # `times` are columns of what the statement reads, `row_times` of its own rows
        return replace(explanation, times=tuple(times.of_all(name)), row_times=tuple(times.of_statement(name)))

    def why_row(self, name: str, delivery: int, rows_after: int, *, insert: bool) -> RowExplanation:
        """Explain one row of delivery number `delivery`, as `why` does. Live views call this for a row of their table.

        `rows_after` is how many rows of the same kind (insert or remove) follow the row in the delivery.
        """
        with self._lock:
            columns = tuple(self._engine.runtime.statement(name).output_type.properties)
            rows = self._engine.feed(name).columns(delivery)  # of this delivery and all later ones
            same = [i for i, n in enumerate(rows.numbers) if n == delivery and rows.inserts[i] == insert]
            if not 0 <= rows_after < len(same):
                raise UsageError(f"the feed of `{name}` no longer has this row")
            position = len(same) - 1 - rows_after
            index = same[position]
            row = {column: rows.column(column)[index] for column in columns}
            return self._explain_row(name, DeliveredRow(delivery, rows.times[index], insert, position, row))

    def _choose_event(
        self, runtime: Runtime, name: str | None, event: Any, type_name: str | None, until: int | None
    ) -> _ChosenEvent:
        """Return the event that the arguments of `why` mean; `until` is `at` in clock units."""
        types = runtime.catalog.event_types
        if type_name is not None:
            find_type(type_name, types)
        if not isinstance(event, int | str):
            type_name = type_name or _only_type(runtime, name)
            validate, _ = self._entry(type_name)
            entry = LogEntry((0, 0), runtime.now, type_name, validate(event))
            return _ChosenEvent(entry, self._engine, hypothetical=True)
        if isinstance(event, str):
            find_type(event, types)
            if type_name not in (None, event):
                raise UsageError(f"the event is of type `{event}` or of type `{type_name}`, not both")
            type_names = [event]
        elif type_name is not None:
            type_names = [type_name]
        elif name is None:
            type_names = list(types)
        else:
            type_names = [type_ for type_ in types if runtime.statement(name).reads(type_)]
        number = -1 if isinstance(event, str) else event
        if number == 0:
            raise UsageError("events are counted from 1, or from the end: -1 is the last")
        chosen = _numbered_event(self._engine, type_names, number, until)
        past = past_engine(self._replay, until) if chosen is None and until is not None else None
        chosen = chosen if past is None else _numbered_event(past, type_names, number, until)
        if chosen is None:
            latest, forgotten = _latest(self._engine, type_names)
            known = sum(until is None or entry.time <= until for entry in latest)
            which = f"of type `{event}`" if isinstance(event, str) else f"number {short_repr(event)}"
            which += f" of type `{type_name}`" if type_name is not None and not isinstance(event, str) else ""
            then, rest = ("", "") if until is None else (" until then", f", {known} of them until then")
            count = f"only the latest {len(latest)} are known{rest}" if forgotten else f"{known} came"
            raise UsageError(f"there is no event {which}{then}: {count}")
        return chosen


def _latest(engine: EngineHandle, type_names: Sequence[str]) -> tuple[list[LogEntry], int]:
    """Return the known events of these types, oldest first, and the number of those before."""
    latest = known_events(engine.event_log, engine.runtime, type_names)
    return latest, sum(engine.event_log.counts[name] for name in type_names) - len(latest)


def _numbered_event(
    engine: EngineHandle, type_names: Sequence[str], number: int, until: int | None
) -> _ChosenEvent | None:
    """Return the event with a number (negative from the end) among those of these types until a time."""
    latest, forgotten = _latest(engine, type_names)
    known = [entry for entry in latest if until is None or entry.time <= until]
    index = number - 1 - forgotten if number > 0 else len(known) + number
    if not 0 <= index < len(known):
        return None
    return _ChosenEvent(known[index], engine, False, type_names, forgotten + index + 1)


def _only_type(runtime: Runtime, name: str | None) -> str:
    if name is None:
        raise UsageError("an event that is handed in needs its type: why(None, {...}, type=...)")
    types = runtime.statement(name).steps.event_types
    if len(types) != 1:
        raise UsageError(f"`{name}` reads events of {', '.join(types) or 'no type'}: say which by type=")
    return types[0]
