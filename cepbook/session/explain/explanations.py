"""Answers to why and why-not questions, as plain data and in words.

``str`` of an answer is what a terminal shows; a notebook shows the same page with tables (`widgets`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from cepbook.display import DisplayTable, format_count, format_property, format_time, table_text
from cepbook.errors import printable
from cepbook.session.explain.provenance import ProvenanceEvent
from cepbook.session.explain.why_not_triggers import ProbeStep

MAX_EVENTS = 50  # of one list
MAX_ROWS = 20  # of a table, and delivered rows that are listed
STEP_SIGNS = {True: "passed", False: "no", None: "?"}
Basis = Literal["run again", "snapshot", "now"]
_BASIS: dict[Basis, str] = {"run again": "", "snapshot": "by a snapshot of the replay", "now": "by what is known now"}


@dataclass(slots=True)
class PageFacts:
    """Pairs of name and value."""

    facts: Sequence[tuple[str, str]]


@dataclass(slots=True)
class TitledTable:
    """A table below its title."""

    title: str
    table: DisplayTable


@dataclass(slots=True)
class ExplanationPage:
    """A title, an optional note, and parts below each other: facts, tables and sentences."""

    title: str
    note: str = ""
    parts: list[PageFacts | TitledTable | str] = field(default_factory=list)

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Add pairs of name and value."""
        self.parts.append(PageFacts(facts))

    def table(self, title: str, table: DisplayTable) -> None:
        """Add a table below its title."""
        self.parts.append(TitledTable(title, table))

    def notes(self, notes: Sequence[str]) -> None:
        """Add sentences."""
        self.parts += notes

    def text(self) -> str:
        """Return the page as plain text."""
        lines = [f"{self.title}{f'  ({self.note})' if self.note else ''}"]
        for item in self.parts:
            match item:
                case str():
                    lines.append(item)
                case TitledTable(title, table):
                    lines += [title, table_text(table, limit=60)]
                case PageFacts():
                    lines += table_text(facts_table(item), limit=None).splitlines()[1:]
        return printable("\n".join(lines))


def facts_table(facts: PageFacts) -> DisplayTable:
    """Return facts as a table without headings."""
    return DisplayTable(("", ""), (False, False), tuple(facts.facts))


@dataclass(frozen=True, slots=True)
class WindowContents:
    """The contents of a window of stream `name`: the last `MAX_EVENTS` of `total` events, oldest first."""

    name: str
    total: int
    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExplanation:
    """Why `statement` delivered `row` with delivery `number` at `time` (clock units).

    `cause` describes the cause in words, `stimulus` is the event if there was one. `partition` and `group` are None
    without a context and without group by. `provenance` are the events from which the row was computed: the last
    `MAX_EVENTS` of `provenance_total`; None if unknown. `windows` are the contents after the stimulus, for a remove row
    before it. `waiting` is what a pattern waited for then. `times` are the properties of events that hold times in
    clock units, `row_times` the columns of the row that do. `basis`: the statement was ``run again`` over all events,
    or the contents are those of a ``snapshot`` of the replay, or those of ``now``.
    """

    statement: str
    number: int
    time: int
    insert: bool
    row: Mapping[str, Any]
    basis: Basis
    cause: str = "not known"
    stimulus: ProvenanceEvent | None = None
    partition: Mapping[str, Any] | None = None
    group: Mapping[str, Any] | None = None
    provenance: tuple[ProvenanceEvent, ...] | None = None
    provenance_total: int = 0
    windows: tuple[WindowContents, ...]
    waiting: tuple[str, ...]
    notes: tuple[str, ...]
    second: int = 1000
    times: tuple[str, ...] = ()
    row_times: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return asdict(self)

    def page(self) -> ExplanationPage:
        """Return the explanation as a page."""
        return _fired_page(self)

    def __str__(self) -> str:
        return self.page().text()


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of an event at one statement: `delivered`, `kept` (retained or counted, nothing delivered), ``fell
    out`` or ``not known``.

    `rows` are the first `MAX_ROWS` delivered rows as (``+`` or ``−``, row). The columns `times` hold times in clock
    units.
    """

    statement: str
    outcome: str
    stages: tuple[ProbeStep, ...]
    rows: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()
    times: tuple[str, ...] = ()

    @property
    def fell_at(self) -> ProbeStep | None:
        """The first step that the event did not pass."""
        return next((stage for stage in self.stages if stage.passed is False), None)


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """The outcomes of `event`, one for each statement that reads events of its type.

    A `hypothetical` event was not sent: its properties are given, and it would come now. `times` are the properties of
    its type that hold times in clock units.
    """

    event: ProvenanceEvent
    courses: tuple[StatementOutcome, ...]
    hypothetical: bool = False
    second: int = 1000
    times: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return asdict(self)

    def page(self) -> ExplanationPage:
        """Return the explanation as a page."""
        return _judged_page(self)

    def __str__(self) -> str:
        return self.page().text()


class _Words(NamedTuple):
    """Formats values. Properties and columns in `times` are times of a clock with `second` units per second."""

    times: Collection[str]
    second: int

    def of(self, name: str, value: object, fine: bool = False) -> str:
        if fine and type(value) is int:
            return format_time(value, millis=True, second=self.second)
        return format_property(name, value, self.times, self.second)

    def row(self, row: Mapping[str, Any]) -> str:
        """Return ``symbol=A  price=10.0``."""
        return "  ".join(f"{name}={self.of(name, value)}" for name, value in row.items())


def _fired_page(answer: RowExplanation) -> ExplanationPage:
    def at(time: int) -> str:
        return format_time(time, second=answer.second)

    events, rows = _Words(answer.times, answer.second), _Words(answer.row_times, answer.second)
    page = ExplanationPage(
        f"why {answer.statement} delivered {'+' if answer.insert else '−'} at {at(answer.time)}", _BASIS[answer.basis]
    )
    stimulus = answer.stimulus
    cause = answer.cause if stimulus is None else f"{stimulus.type_name}  {events.row(stimulus.event)}"
    if stimulus is not None and stimulus.time is not None and stimulus.time != answer.time:
        cause = f"{answer.cause}, before {cause}"
    facts = [("row", rows.row(answer.row)), ("because of", cause)]
    facts += [("partition", events.row(answer.partition))] if answer.partition is not None else []
    facts += [("group", events.row(answer.group))] if answer.group is not None else []
    page.facts(facts)
    if answer.provenance is not None:
        title = f"provenance: {format_count(answer.provenance_total, 'event')}"
        if answer.provenance:
            title += _last(answer.provenance_total, len(answer.provenance))
            page.table(title, _tagged(answer.provenance[-MAX_ROWS:], events))
        else:
            page.notes([title])
    if answer.waiting:
        page.notes([f"other matches wait for {', '.join(answer.waiting[:MAX_ROWS])}"])
    for contents in answer.windows:
        when = "" if answer.basis != "run again" else " then" if answer.insert else " before"
        title = f"{contents.name}: {format_count(contents.total, 'event')} retained{when}"
        if contents.events:
            page.table(title + _last(contents.total, len(contents.events)), _rows(contents.events[-MAX_ROWS:], events))
        else:
            page.notes([title])
    page.notes(answer.notes)
    return page


def _last(total: int, known: int) -> str:
    listed = min(known, MAX_ROWS)
    return f", the last {listed}" if total > listed else ""


def _tagged(events: Sequence[ProvenanceEvent], words: _Words) -> DisplayTable:
    rows = [{"": e.tag, "time": "" if e.time is None else e.time, **_free(e.event)} for e in events]
    return _rows(rows, words._replace(times={*_free(dict.fromkeys(words.times)), "time"}))


def _free(event: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name} " if name == "time" else name: value for name, value in event.items()}


def _rows(rows: Sequence[Mapping[str, Any]], words: _Words) -> DisplayTable:
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name) if name in row else "" for name in names] for row in rows]
    right = tuple(n not in words.times and all(_number(line[i]) for line in values) for i, n in enumerate(names))
    timed = (name in words.times for name in names)
    fine = [of and any(_beside(line[i], words.second) for line in values) for i, of in enumerate(timed)]
    cells = (tuple(map(words.of, names, line, fine)) for line in values)
    return DisplayTable(tuple(names), right, tuple(cells))


def _beside(value: object, second: int) -> bool:
    return type(value) is int and value % second != 0


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _judged_page(answer: EventExplanation) -> ExplanationPage:
    at = "" if answer.event.time is None else format_time(answer.event.time, second=answer.second)
    what = "what would become of" if answer.hypothetical else "what became of"
    page = ExplanationPage(f"{what} {answer.event.type_name} at {at}")
    words = _Words(answer.times, answer.second)
    page.facts([("event", words.row(answer.event.event))])
    if not answer.courses:
        page.notes(["no statement reads events of this type"])
    elif len(answer.courses) == 1:
        only = answer.courses[0]
        page.table(f"{only.statement}: {_outcome(only, answer.second)}", _stages(only.stages, words))
        page.notes(only.notes)
    else:
        page.table(f"at {format_count(len(answer.courses), 'statement')}", _summary(answer.courses, words))
    return page


def _outcome(course: StatementOutcome, second: int) -> str:
    rows = _delivered(course, second, 3)
    said = course.outcome if course.outcome == "delivered" else f"{course.outcome}; delivered were"
    return f"{said}: {rows}" if rows else course.outcome


def _delivered(course: StatementOutcome, second: int, most: int) -> str:
    words, more = _Words(course.times, second), len(course.rows) - most
    rows = "; ".join(f"{sign} {words.row(row)}" for sign, row in course.rows[:most])
    several = f"at least {more}" if len(course.rows) >= MAX_ROWS else str(more)
    return f"{rows}, and {several} more" if more > 0 else rows


def _values(stage: ProbeStep, words: _Words) -> str:
    return ", ".join(f"{name} = {words.of(name, value)}" for name, value in stage.values)


def _stages(stages: Sequence[ProbeStep], words: _Words) -> DisplayTable:
    cells = tuple((s.name, STEP_SIGNS[s.passed], s.text, _values(s, words), s.note) for s in stages)
    signs = tuple({True: "+", False: "−"}.get(s.passed, "") if s.passed is not None else "" for s in stages)
    headings = ("stage", "", "condition", "values", "note")
    return DisplayTable(headings, (False,) * 5, cells, signs, prose=(False,) * 4 + (True,))


def _summary(courses: Sequence[StatementOutcome], words: _Words) -> DisplayTable:
    signs = {"delivered": "+", "fell out": "−"}
    return DisplayTable(
        ("statement", "", "at", "condition", "values", "note"),
        (False,) * 6,
        tuple(tuple(_line(course, words)) for course in courses),
        tuple(signs.get(course.outcome, "") for course in courses),
        prose=(False,) * 5 + (True,),
    )


def _line(course: StatementOutcome, words: _Words) -> Iterator[str]:
    stage = None if course.outcome == "delivered" else course.fell_at
    if stage is None and course.outcome == "not known":
        stage = next((step for step in course.stages if step.passed is None), None)
    yield course.statement
    yield course.outcome
    yield from ("", "") if stage is None else (stage.name, stage.text)
    yield _delivered(course, words.second, 2) if stage is None else _values(stage, words)
    yield "; ".join(filter(None, ["" if stage is None else stage.note, *course.notes]))
