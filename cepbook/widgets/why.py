"""Answers to questions why, as text and as HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cepbook.session.why.acting import Stage
from cepbook.session.why.courses import Course, Judged
from cepbook.session.why.fired import Fired
from cepbook.session.why.made import Piece
from cepbook.shown import Table, counted, heading_html, prose, table_html, table_text, time_text
from cepbook.widgets.encode import property_text
from cepbook.widgets.render import Frozen

ROWS = 20  # of a table
SIGNS = {True: "passed", False: "no", None: "?"}
_BASIS = {
    "run again": "",
    "snapshot": "by a snapshot of the replay",
    "now": "by what is known now",
}


def shown(found: Fired | Judged) -> Frozen:
    """An answer of `Workbench.why`."""
    return _fired(found) if isinstance(found, Fired) else _judged(found)


class _Words(NamedTuple):
    """How values are written: properties and columns of `times` are times, of whose clock a second has `second`."""

    times: Collection[str]
    second: int

    def of(self, name: str, value: object) -> str:
        return property_text(name, value, self.times, self.second)

    def row(self, row: Mapping[str, Any]) -> str:
        """``symbol=A  price=10.0``."""
        return "  ".join(f"{name}={self.of(name, value)}" for name, value in row.items())


class _Page:
    """Parts below each other, in both forms."""

    def __init__(self, title: str, note: str = "") -> None:
        self._html = [heading_html(title, note)]
        self._text = [f"{title}{f'  ({note})' if note else ''}"]

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Names and what they are."""
        table = Table(("", ""), (False, False), tuple(facts))
        self._html.append(table_html(table))
        self._text += table_text(table, limit=None).splitlines()[1:]

    def table(self, title: str, table: Table) -> None:
        self._html.append(heading_html(title) + table_html(table))
        self._text += [title, table_text(table, limit=60)]

    def notes(self, notes: Sequence[str]) -> None:
        self._html += [f'<div style="opacity:.75">{prose(note)}</div>' for note in notes]
        self._text += notes

    def frozen(self) -> Frozen:
        return Frozen(f"<div>{''.join(self._html)}</div>", "\n".join(self._text))


def _fired(found: Fired) -> Frozen:
    def at(time: int) -> str:
        return time_text(time, second=found.second)

    events, rows = _Words(found.times, found.second), _Words(found.row_times, found.second)
    page = _Page(
        f"why {found.statement} delivered {'+' if found.insert else '−'} at {at(found.time)}", _BASIS[found.basis]
    )
    stimulus = found.stimulus
    cause = found.cause if stimulus is None else f"{stimulus.type_name}  {events.row(stimulus.event)}"
    if stimulus is not None and stimulus.time is not None and stimulus.time != found.time:
        cause = f"{found.cause}, before {cause}"
    facts = [("row", rows.row(found.row)), ("set off by", cause)]
    facts += [("partition", events.row(found.partition))] if found.partition is not None else []
    facts += [("group", events.row(found.group))] if found.group is not None else []
    facts += [("then waits for", wait) for wait in found.waiting[:ROWS]]
    page.facts(facts)
    if found.made is not None:
        title = f"made of {counted(found.made_total, 'event')}"
        if found.made:
            page.table(title + _last(found.made_total, len(found.made)), _pieces(found.made[-ROWS:], at, events))
        else:
            page.notes([title])
    for contents in found.windows:
        noun = "held then" if found.basis == "run again" and found.insert else "held"
        noun = "held before" if found.basis == "run again" and not found.insert else noun
        title = f"{contents.name}: {counted(contents.total, 'event')} {noun}"
        if contents.events:
            page.table(title + _last(contents.total, len(contents.events)), _rows(contents.events[-ROWS:], events))
        else:
            page.notes([title])
    page.notes(found.notes)
    return page.frozen()


def _last(total: int, known: int) -> str:
    shown_rows = min(known, ROWS)
    return f", the last {shown_rows}" if total > shown_rows else ""


def _pieces(pieces: Sequence[Piece], at: Any, words: _Words) -> Table:
    rows = [
        {"": piece.tag, "time": "" if piece.time is None else at(piece.time), **_free(piece.event)} for piece in pieces
    ]
    return _rows(rows, words)


def _free(event: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name} " if name == "time" else name: value for name, value in event.items()}


def _rows(rows: Sequence[Mapping[str, Any]], words: _Words) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name) if name in row else "" for name in names] for row in rows]
    right = tuple(n not in words.times and all(_number(line[i]) for line in values) for i, n in enumerate(names))
    return Table(tuple(names), right, tuple(tuple(map(words.of, names, line)) for line in values))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _judged(found: Judged) -> Frozen:
    at = "" if found.event.time is None else time_text(found.event.time, second=found.second)
    what = "what would become of" if found.supposed else "what became of"
    page = _Page(f"{what} {found.event.type_name} at {at}")
    words = _Words(found.times, found.second)
    page.facts([("event", words.row(found.event.event))])
    if not found.courses:
        page.notes(["no statement reads events of this type"])
    elif len(found.courses) == 1:
        only = found.courses[0]
        page.table(f"{only.statement}: {_outcome(only, found.second)}", _stages(only.stages, words))
        page.notes(only.notes)
    else:
        page.table(f"at {counted(len(found.courses), 'statement')}", _summary(found.courses, words))
    return page.frozen()


def _outcome(course: Course, second: int) -> str:
    rows = [f"{sign} {_Words(course.times, second).row(row)}" for sign, row in course.rows[:3]]
    more = f", and {len(course.rows) - 3} more" if len(course.rows) > 3 else ""
    said = course.outcome if course.outcome == "delivered" else f"{course.outcome}; delivered were"
    return f"{said}: {'; '.join(rows)}{more}" if rows else course.outcome


def _values(stage: Stage, words: _Words) -> str:
    return ", ".join(f"{name} = {words.of(name, value)}" for name, value in stage.values)


def _stages(stages: Sequence[Stage], words: _Words) -> Table:
    cells = tuple((s.name, SIGNS[s.passed], s.text, _values(s, words), s.note) for s in stages)
    signs = tuple({True: "+", False: "−"}.get(s.passed, "") if s.passed is not None else "" for s in stages)
    headings = ("stage", "", "condition", "values", "note")
    return Table(headings, (False,) * 5, cells, signs, prose=(False,) * 4 + (True,))


def _summary(courses: Sequence[Course], words: _Words) -> Table:
    signs = {"delivered": "+", "fell out": "−"}
    return Table(
        ("statement", "", "at", "condition", "values", "note"),
        (False,) * 6,
        tuple(tuple(_line(course, words)) for course in courses),
        tuple(signs.get(course.outcome, "") for course in courses),
        prose=(False,) * 5 + (True,),
    )


def _line(course: Course, words: _Words) -> Iterator[str]:
    stage = None if course.outcome == "delivered" else course.fell_at
    if stage is None and course.outcome == "not known":
        stage = next((each for each in course.stages if each.passed is None), None)
    yield course.statement
    yield course.outcome
    yield from ("", "") if stage is None else (stage.name, stage.text)
    rows = _Words(course.times, words.second)
    made = "; ".join(f"{sign} {rows.row(row)}" for sign, row in course.rows[:2])
    yield made if stage is None else _values(stage, words)
    yield "; ".join(filter(None, ["" if stage is None else stage.note, *course.notes]))
