"""Marble diagrams: the contents of a statement's window and its deliveries over engine time.

Windows keep no identity of their events, so the diagram is not recorded but computed. The statement and everything that
feeds it run again (`history.rerun_windows`) over the event log. Python functions are called again.

Events before the log begins cannot be drawn. `Marble.notes` say so, unless they had left the window before the drawn
span, and they say if the running statement delivered other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepbook.display import DATE_THRESHOLD_MS, format_count
from cepbook.engine.delivery.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError, hint_line
from cepbook.feeds import Delivery, Feed
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import LONG, SIZED_NUMBERS, Type
from cepbook.lazy_imports import PandasFrame
from cepbook.session.history.event_log import HORIZON, EventLog
from cepbook.session.history.rerun_windows import MarbleArrival, MatchRun, WindowRerun, WindowStay, rows_equal
from cepbook.session.io.output.time_types import time_type
from cepbook.session.io.time_conversion import clock_text, clock_unit, format_span

MAX_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Marble:
    """A marble diagram as data. Notebooks show it as a chart (`cepbook.widgets`).

    It spans `start` to `end` (ms, or µs with such a clock): from the first of `arrivals` to the present. `bars` are the
    stays in the window in order of arrival; the first may begin before `start`. `windowed` is False for statements
    without a window. `deliveries` are numbered from 0. `properties` are those of an arriving event, `retained` those of
    an event in the window (others behind a derived-value window), `columns` those of a row. `grouped_by` names the keys
    in `group`. `label` names the properties that stand for an event. `runs` are the matches of match_recognize, by
    arrivals. `time` is the type of times in frames.
    """

    name: str
    epl: str
    start: int
    end: int
    windowed: bool
    arrivals: tuple[MarbleArrival, ...]
    bars: tuple[WindowStay, ...]
    deliveries: tuple[Delivery, ...]
    properties: tuple[str, ...]
    retained: tuple[str, ...]
    columns: tuple[str, ...]
    selector: nodes.Selector = "istream"
    grouped_by: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unit: str = "ms"
    runs: tuple[MatchRun, ...] = ()
    time: Type = LONG

    def to_frame(self) -> PandasFrame:
        """Return one row per stay: number, arrived, entered, left (NaT: not yet), the event's properties."""
        import pandas as pd  # not at the top: the playground draws diagrams without pandas

        from cepbook.session.io.output.result_frames import typed_series

        head = {
            "number": pd.array([bar.number for bar in self.bars], dtype="Int64"),
            "arrived": typed_series([bar.arrived for bar in self.bars], self.time),
            "entered": typed_series([bar.entered for bar in self.bars], self.time),
            "left": typed_series([bar.left for bar in self.bars], self.time),
        }
        rest = {
            f"{name}_" if name in head else name: pd.Series([bar.event.get(name) for bar in self.bars], dtype="object")
            for name in self.retained
        }
        return pd.DataFrame({**head, **rest})

    def __repr__(self) -> str:
        facts = [
            format_count(len(self.arrivals), "arrival"),
            *([format_count(len(self.bars), "bar")] if self.windowed else []),
            *([f"{len(self.runs)} match{'es' * (len(self.runs) != 1)}"] if self.runs else []),
            format_count(sum(len(d.insert or ()) for d in self.deliveries), "insert row"),
            format_count(sum(len(d.remove or ()) for d in self.deliveries), "remove row"),
            format_span(self.start, self.end, self.unit),
        ]
        text = f"marble diagram of {self.name}: {', '.join(facts)}"
        return "\n".join((text, *(f"  {note}" for note in self.notes)))


def build_marble(
    runtime: Runtime, event_log: EventLog, feed: Feed, name: str, events: int, label: str | Sequence[str] | None
) -> Marble:
    """Build the diagram of statement `name` over its last `events` arrivals. `feed` has the rows that it delivered.

    `label` names the properties that stand for an event; the default is the first text and the first number. Raises
    UsageError for an unknown name or property, and for `events` below 1 or above `MAX_EVENTS`.
    """
    if isinstance(events, bool) or not isinstance(events, int) or not 1 <= events <= MAX_EVENTS:
        raise UsageError(f"a marble diagram shows 1 to {MAX_EVENTS} events, not {events!r}")
    statement = runtime.statement(name)
    if not isinstance(statement.plan, nodes.SelectStatement):
        raise UsageError(f"`{name}` is a statement of kind `{statement.kind}`: marble diagrams show select statements")
    source = statement.steps.source
    if source.pattern is not None or source.without_from or statement.steps.inputs:
        what = "the matches of a pattern" if source.pattern is not None else "no events"
        what = "several streams" if statement.steps.inputs else what
        raise UsageError(f"`{name}` reads {what}: marble diagrams show statements that read a stream of events")
    event_type = runtime.catalog.event_types[source.event_type]
    labels = _labels(event_type, label)
    rerun = WindowRerun(runtime, event_log, statement.plan)
    rerun.run()
    first = max(0, len(rerun.arrivals) - events)
    arrivals = rerun.arrivals[first:]
    begin = arrivals[0].time if arrivals else runtime.now
    bars, notes = _bars(rerun, first, events)
    drawn = [delivery for after, delivery in rerun.deliveries if after > first]
    delivered, complete = feed.snapshot(), not feed.dropped
    agrees = _agree(drawn, delivered, begin, complete=complete)
    if not agrees:
        drawn = [delivery for delivery in delivered if delivery.time >= begin]
        notes.append("running it again over the known arrivals gives other rows: the rows are those of the statement")
        if not complete and delivered[0].time > begin:
            known = _time_text(delivered[0].time, runtime)
            notes.append(f"rows before {known} are not drawn: the feed keeps the latest {feed.capacity:,} rows")
    if rerun.is_incomplete and not (agrees and rerun.caught_up(first)):
        begin_text = _time_text(rerun.begin, runtime)
        notes.append(f"what came before {begin_text} is not known, and left out of the window: {HORIZON}")
    return Marble(
        name=name,
        epl=statement.epl,
        start=begin,
        end=max(runtime.now, begin),
        windowed=rerun.stream is not None,
        arrivals=tuple(arrivals),
        bars=tuple(bars),
        deliveries=tuple(delivery._replace(number=number) for number, delivery in enumerate(drawn)),
        properties=tuple(event_type.properties),
        retained=tuple(_retained(rerun.stream, event_type).properties),
        columns=tuple(statement.output_type.properties),
        selector=statement.steps.emit.selector,
        grouped_by=rerun.grouped_by,
        label=labels,
        notes=tuple(notes),
        unit=clock_unit(runtime.config.second),
        runs=tuple(run for run in rerun.runs if run.rows[0][0] >= first),
        time=time_type(runtime.config),
    )


def _bars(rerun: WindowRerun, first: int, events: int) -> tuple[list[WindowStay], list[str]]:
    recent: list[WindowStay] = []
    older: list[WindowStay] = []
    for bar in rerun.bars:
        if bar.number >= first:
            recent.append(bar)
        elif bar.left is None or bar.ended > first:
            older.append(bar)
    left_out = len(older) - events
    notes = []
    if left_out > 0:
        older = older[left_out:]
        notes.append(f"{format_count(left_out, 'older event')} in the window not drawn")
    return older + recent, notes


def _time_text(time: int, runtime: Runtime) -> str:
    if abs(time) * 1000 // runtime.config.second >= DATE_THRESHOLD_MS:
        return clock_text(time, runtime.config.second)
    return f"{time} {clock_unit(runtime.config.second)}"  # such a clock has no meaningful origin


def _retained(stream: nodes.Windowed | None, event_type: EventType) -> EventType:
    derivation = None if stream is None else stream.derivation
    return event_type if derivation is None else derivation.event_type


def _labels(event_type: EventType, requested: str | Sequence[str] | None) -> tuple[str, ...]:
    properties = event_type.properties
    if requested is not None:
        names = (requested,) if isinstance(requested, str) else tuple(requested)
        for name in names:
            if name not in properties:
                hint = hint_line(name, properties)
                raise UsageError(f"event type `{event_type.name}` has no property `{name}`{hint}")
        return names
    times = (event_type.time_property, event_type.end_time_property)
    texts = [name for name, of in properties.items() if of.name in ("string", "char")]
    numbers = [name for name, of in properties.items() if of.name in SIZED_NUMBERS and name not in times]
    return (*texts[:1], *numbers[:1]) or tuple(properties)[:1]


def _agree(drawn: Sequence[Delivery], delivered: Sequence[Delivery], begin: int, *, complete: bool) -> bool:
    if not complete:
        begin = max(begin, delivered[0].time)  # the newest delivery is always kept
    later = [sum(d.time > begin for d in some) for some in (drawn, delivered)]
    if later[0] != later[1] or (complete and len(delivered) < len(drawn)):
        return False
    reach = min(len(drawn), len(delivered))
    pairs = zip(drawn[len(drawn) - reach :], delivered[len(delivered) - reach :], strict=True)
    return all(a.time == b.time and _same_rows(a.insert, b.insert) and _same_rows(a.remove, b.remove) for a, b in pairs)


def _same_rows(rows: Sequence[Row] | None, other_rows: Sequence[Row] | None) -> bool:
    rows, other_rows = rows or (), other_rows or ()
    return len(rows) == len(other_rows) and all(rows_equal(a, b) for a, b in zip(rows, other_rows, strict=True))
