"""The methods of `Workbench` that explain rows and events (`session.explain`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from cepbook.argument_checks import short_repr
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.session.explain.explanations import EventExplanation, RowExplanation
from cepbook.session.explain.why import find_row
from cepbook.session.explain.why_not import hypothetical_event, known_events, statements_reading, why_not
from cepbook.session.explain.why_replayed import explain_replayed_row
from cepbook.session.history.event_log import LogEntry
from cepbook.session.history.rerun_provenance import DeliveredRow
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import find_type
from cepbook.session.io.time_conversion import TimeLike
from cepbook.session.replay_mixin import ReplayMixin

EventChoice = int | str | Mapping[str, Any]


class ExplanationMixin(ReplayMixin):
    """Questions why. They change nothing, and call Python functions on request only."""

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
        """Explain why statement `name` delivered a row, or what became of an `event` there (no name: everywhere).

        The row is the last one, the last up to the time `at`, or number `row` of `changes` (negative from the end). The
        explanation has its cause, partition and group, the events that made it, and the contents of windows.

        The event is a number (1 is the first of the types that are read, -1 the last), the name of a type (its last
        event), or a dict of properties of an event that would come now. The explanation has the filter, context,
        window, where, join, pattern, having or output that it did not pass, with the values. `type` is needed with a
        dict if a statement reads several types.

        Statements run again, aside, over the latest events. `calls` allows them to call Python functions. Raises
        UsageError for unknown names, rows and events, EventError for a dict that does not fit the type.
        """
        with self._lock:
            runtime = self._engine.runtime
            until = None if at is None else self._moment(at)
            if name is not None:
                runtime.statement(name)
            if event is None:
                if name is None:
                    raise UsageError("why of which statement, or of which event?")
                columns = tuple(runtime.statement(name).output_type.properties)
                place = find_row(self._engine.feed(name), name, columns, row, until)
                return self._fired(name, place, calls=calls)
            if row is not None:
                raise UsageError("give a row or an event, not both")
            log_entry, supposed = self._wanted(runtime, name, event, type, until)
            names = statements_reading(runtime, log_entry.type_name or "") if name is None else [name]
            if name is not None and name not in statements_reading(runtime, log_entry.type_name or ""):
                raise UsageError(f"`{name}` does not read events of type `{log_entry.type_name}`")
            return why_not(runtime, self._engine.event_log, names, log_entry, supposed=supposed, calls=calls)

    def _fired(self, name: str, place: DeliveredRow, *, calls: bool = False) -> RowExplanation:
        runtime, record = self._engine.runtime, self._engine.event_log
        explanation = explain_replayed_row(runtime, record, self._replay, name, place, calls=calls)
        times = TimeColumns(runtime)
        return replace(explanation, times=tuple(times.of_all(name)), row_times=tuple(times.of_statement(name)))

    def why_row(self, name: str, delivery: int, behind: int, *, insert: bool) -> RowExplanation:
        """Explain a row by its delivery, as `why` does. `behind` is the number of insert, or remove, rows after it."""
        with self._lock:
            columns = tuple(self._engine.runtime.statement(name).output_type.properties)
            rows = self._engine.feed(name).columns(delivery)
            same = [i for i, n in enumerate(rows.numbers) if n == delivery and rows.inserts[i] == insert]
            if not 0 <= behind < len(same):
                raise UsageError(f"the feed of `{name}` has this row no more")
            place = len(same) - 1 - behind
            index = same[place]
            row = {column: rows.column(column)[index] for column in columns}
            return self._fired(name, DeliveredRow(delivery, rows.times[index], insert, place, row))

    def _wanted(
        self, runtime: Runtime, name: str | None, event: Any, type_name: str | None, until: int | None
    ) -> tuple[LogEntry, bool]:
        types = runtime.catalog.event_types
        if type_name is not None:
            find_type(type_name, types)
        if not isinstance(event, int | str):
            chosen = type_name or _only_type(runtime, name)
            return hypothetical_event(chosen, self._entry(chosen)[0](event), runtime.now), True
        statements = runtime.statements.values() if name is None else (runtime.statement(name),)
        if isinstance(event, str):
            find_type(event, types)
            type_names = [event]
        else:
            type_names = [type_ for type_ in types if any(s.reads(type_) for s in statements)] if name else list(types)
        event_log = self._engine.event_log
        known = [e for e in known_events(event_log, runtime, type_names) if until is None or e.time <= until]
        number = -1 if isinstance(event, str) else event
        if number > 0:  # the first is 1, even if it is no longer known
            number -= 1 + sum(event_log.counts[type_] for type_ in type_names) - len(known) if until is None else 1
            if number < 0:
                raise UsageError(f"event {short_repr(event)} is not known any more: the latest {len(known)} are")
        elif number == 0:
            raise UsageError("events are counted from 1, or from the end: -1 is the last")
        if not -len(known) <= number < len(known):
            which = f"of type `{event}`" if isinstance(event, str) else f"number {short_repr(event)}"
            raise UsageError(f"there is no event {which}: {len(known)} came")
        return known[number], False


def _only_type(runtime: Runtime, name: str | None) -> str:
    if name is None:
        raise UsageError("an event that is handed in needs its type: why(None, {...}, type=...)")
    types = runtime.statement(name).steps.event_types
    if len(types) != 1:
        raise UsageError(f"`{name}` reads events of {', '.join(types) or 'no type'}: say which by type=")
    return types[0]
