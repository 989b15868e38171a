"""Questions why: of a row that was delivered, of an event that was not (`session.why.fired`, `session.why.fallen`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from cepbook.arguments import told
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.session.bench import Bench
from cepbook.session.inspect.times import Times
from cepbook.session.past.watched import Place
from cepbook.session.running.arrivals import Happening
from cepbook.session.values.clock import Moment
from cepbook.session.values.validate import find_type
from cepbook.session.why.answers import Fired, Judged
from cepbook.session.why.fallen import known_events, readers_of, supposed_event, why_not
from cepbook.session.why.fired import place_of, why_fired

Wanted = int | str | Mapping[str, Any]


class Explaining(Bench):
    """The part of a workbench that explains. It changes nothing, and calls Python functions only on request."""

    @overload
    def why(
        self, name: str, event: None = None, *, row: int | None = None, at: Moment | None = None, calls: bool = False
    ) -> Fired: ...
    @overload
    def why(
        self, name: str | None, event: Wanted, *, type: str | None = None, at: Moment | None = None, calls: bool = False
    ) -> Judged: ...
    def why(
        self,
        name: str | None = None,
        event: Any = None,
        *,
        type: str | None = None,
        row: int | None = None,
        at: Moment | None = None,
        calls: bool = False,
    ) -> Fired | Judged:
        """Why statement `name` delivered a row; or what became of an `event` there, and without a name everywhere.

        The row is the last one, the last until the time `at`, or `row` of `changes` (negative from the end): what set
        it off, its partition and group, the events that made it, what windows held. The event is a number (1 is the
        first of the types that are read, -1 the last), the name of a type (its last event), or a dict of properties of
        an event that would come now: which filter, context, window, where, join, pattern, having or output it did not
        pass, with the values. `type` is needed with a dict where a statement reads several types.

        Statements run again aside over the latest events; `calls` says that Python functions may be called for that.
        Raises UsageError for unknown names and for what is not there, EventError for a dict that is no such event.
        """
        with self._lock:
            runtime = self._stage.runtime
            until = None if at is None else self._moment(at)
            if name is not None:
                runtime.statement(name)
            if event is None:
                if name is None:
                    raise UsageError("why of which statement, or of which event?")
                place = place_of(
                    self._stage.feed(name), name, tuple(runtime.statement(name).output_type.properties), row, until
                )
                return self._fired(name, place, calls=calls)
            if row is not None:
                raise UsageError("give a row or an event, not both")
            happening, supposed = self._wanted(runtime, name, event, type, until)
            names = readers_of(runtime, happening.type_name or "") if name is None else [name]
            if name is not None and name not in readers_of(runtime, happening.type_name or ""):
                raise UsageError(f"`{name}` does not read events of type `{happening.type_name}`")
            return why_not(runtime, self._stage.arrivals, names, happening, supposed=supposed, calls=calls)

    def _fired(self, name: str, place: Place, *, calls: bool = False) -> Fired:
        runtime, record = self._stage.runtime, self._stage.arrivals
        found, times = why_fired(runtime, record, self._replay, name, place, calls=calls), Times(runtime)
        return replace(found, times=tuple(times.of_all(name)), row_times=tuple(times.of_statement(name)))

    def why_row(self, name: str, delivery: int, behind: int, *, insert: bool) -> Fired:
        """As `why` of a row, by its delivery: `behind` it so many insert, or remove, rows of that follow."""
        with self._lock:
            columns = tuple(self._stage.runtime.statement(name).output_type.properties)
            found = self._stage.feed(name).columns(delivery)
            same = [i for i, n in enumerate(found.numbers) if n == delivery and found.inserts[i] == insert]
            if not 0 <= behind < len(same):
                raise UsageError(f"the feed of `{name}` has this row no more")
            place = len(same) - 1 - behind
            index = same[place]
            row = {each: found.column(each)[index] for each in columns}
            return self._fired(name, Place(delivery, found.times[index], insert, place, row))

    def _wanted(
        self, runtime: Runtime, name: str | None, event: Any, type_name: str | None, until: int | None
    ) -> tuple[Happening, bool]:
        """The event that is meant, and whether it is only supposed."""
        types = runtime.catalog.event_types
        if type_name is not None:
            find_type(type_name, types)
        if not isinstance(event, int | str):
            chosen = type_name or _only_type(runtime, name)
            return supposed_event(chosen, self._entry(chosen)[0](event), runtime.now), True
        statements = runtime.statements.values() if name is None else (runtime.statement(name),)
        if isinstance(event, str):
            find_type(event, types)
            wanted = [event]
        else:
            wanted = [each for each in types if any(s.reads(each) for s in statements)] if name else list(types)
        record = self._stage.arrivals
        known = [e for e in known_events(record, runtime, wanted) if until is None or e.time <= until]
        number = -1 if isinstance(event, str) else event
        if number > 0:  # the first is 1, also when it is not known any more
            number -= 1 + sum(record.counts[each] for each in wanted) - len(known) if until is None else 1
            if number < 0:
                raise UsageError(f"event {told(event)} is not known any more: the latest {len(known)} are")
        elif number == 0:
            raise UsageError("events are counted from 1, or from the end: -1 is the last")
        if not -len(known) <= number < len(known):
            which = f"of type `{event}`" if isinstance(event, str) else f"number {told(event)}"
            raise UsageError(f"there is no event {which}: {len(known)} came")
        return known[number], False


def _only_type(runtime: Runtime, name: str | None) -> str:
    """The one type that a statement reads."""
    if name is None:
        raise UsageError("an event that is handed in needs its type: why(None, {...}, type=...)")
    types = runtime.statement(name).steps.event_types
    if len(types) != 1:
        raise UsageError(f"`{name}` reads events of {', '.join(types) or 'no type'}: say which by type=")
    return types[0]
