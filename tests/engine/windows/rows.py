"""Naive rows: what a select makes of the changes of its window, straight from what is recorded of deliveries.

Aggregates are calculated from scratch, over what entered and did not leave. A row of an event that leaves has the
aggregates as they are after the whole change, a row of a group or of all events those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.engine.windows.references import Change, Event

Held = list[Event]
Row = tuple[Any, ...]


def known(held: Held, name: str = "x") -> list[Any]:
    return [e[name] for e in held if e[name] is not None]


def distinct(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def total(values: Sequence[Any]) -> Any:
    return sum(values) if values else None


AGGREGATES: dict[str, Callable[[Held], Any]] = {
    "count(*)": len,
    "count(x)": lambda held: len(known(held)),
    "sum(x)": lambda held: total(known(held)),
    "sum(distinct x)": lambda held: total(distinct(known(held))),
    "sum(x, y > 1)": lambda held: total(known([e for e in held if e["y"] > 1])),
    "avg(x)": lambda held: total(known(held)) / len(known(held)) if known(held) else None,
    "min(x)": lambda held: min(known(held), default=None),
    "max(w)": lambda held: max(known(held, "w"), default=None),
    "first(x)": lambda held: held[0]["x"] if held else None,
    "last(id)": lambda held: held[-1]["id"] if held else None,
    "window(id)": lambda held: [e["id"] for e in held] or None,
}
CONDITIONS: dict[str, Callable[[Event], bool]] = {
    "x > 0": lambda e: e["x"] is not None and e["x"] > 0,
    "y != 1": lambda e: e["y"] != 1,
    "k is not null": lambda e: e["k"] is not None,
}
HAVING: dict[str, Callable[[Held], bool]] = {
    "count(*) > 1": lambda held: len(held) > 1,
    "sum(x) > 3": lambda held: bool(known(held)) and sum(known(held)) > 3,
    "max(w) < 3": lambda held: bool(known(held, "w")) and max(known(held, "w")) < 3,
}
KEYS = (("k",), ("y",), ("k", "y"))


@dataclass(frozen=True, slots=True)
class Select:
    """A select without its window: `plain` columns, then `calls` of aggregates; `descending`: ``order by id desc``."""

    selector: str
    plain: tuple[str, ...]
    calls: tuple[str, ...]
    keys: tuple[str, ...]
    where: str | None
    having: str | None
    descending: bool

    def text(self, chain: str) -> str:
        columns = ", ".join([*self.plain, *(f"{call} as a{n}" for n, call in enumerate(self.calls))])
        clauses = [f" where {self.where}" if self.where else ""]
        clauses.append(f" group by {', '.join(self.keys)}" if self.keys else "")
        clauses.append(f" having {self.having}" if self.having else "")
        clauses.append(" order by id desc" if self.descending else "")
        return f"select {self.selector} {columns} from E{chain}{''.join(clauses)}"

    @property
    def fully(self) -> bool:
        """Whether rows stand for groups, or all events, and not for events."""
        return set(self.plain) <= set(self.keys) and bool(self.calls or self.keys)


def drawn(chance: Random) -> Select:
    keys = chance.choice(((), (), *KEYS))
    calls = tuple(chance.sample(sorted(AGGREGATES), chance.choice((0, 1, 1, 2, 3))))
    per_event = (not calls and not keys) or chance.random() < 0.5
    plain = ("id", "x") if per_event else keys
    having = chance.choice(sorted(HAVING)) if calls and chance.random() < 0.3 else None
    where = chance.choice(sorted(CONDITIONS)) if chance.random() < 0.3 else None
    selector = chance.choice(("", "irstream", "irstream", "irstream", "rstream"))
    return Select(selector, plain, calls, keys, where, having, per_event and chance.random() < 0.2)


class Rows:
    """The deliveries of a select."""

    def __init__(self, select: Select) -> None:
        self.select = select
        self.groups: dict[Row, Held] = {}

    def key(self, event: Event) -> Row:
        return tuple(event[name] for name in self.select.keys)

    def row(self, event: Event | None, key: Row) -> Row | None:
        """A row with the aggregates of the group as they are now; None if having rejects it."""
        held = self.groups.get(key, [])
        if self.select.having is not None and not HAVING[self.select.having](held):
            return None
        named = dict(zip(self.select.keys, key, strict=True)) if event is None else event.values
        return tuple(named[name] for name in self.select.plain) + tuple(AGGREGATES[c](held) for c in self.select.calls)

    def rows(self, events: Sequence[Event | None], keys: Sequence[Row]) -> list[Row]:
        return [row for row in map(self.row, events, keys) if row is not None]

    def move(self, insert: Sequence[Event], remove: Sequence[Event]) -> None:
        for event in insert:
            self.groups.setdefault(self.key(event), []).append(event)
        for event in remove:
            key = self.key(event)
            self.groups[key] = [e for e in self.groups[key] if e is not event]
            if not self.groups[key]:
                del self.groups[key]

    def delivery(self, change: Change) -> tuple[list[Row], list[Row]] | None:
        """The rows of both sides for a change; None where there is no row.

        An empty change is a row of a statement with one row for all events, a change of rejected events is none.
        """
        select = self.select
        passes = CONDITIONS[select.where] if select.where is not None else lambda e: True
        insert, remove = ([e for e in side if passes(e)] for side in change)
        touched = distinct([self.key(e) for e in (*insert, *remove)])
        if not select.keys and not change.insert and not change.remove:
            touched = [()]
        nobody: list[Event | None] = [None] * len(touched)
        former = self.rows(nobody, touched) if select.fully else []
        self.move(insert, remove)
        if select.fully:
            made = self.rows(nobody, touched), former
        else:
            made = (
                self.rows(insert, [self.key(e) for e in insert]),
                self.rows(remove, [self.key(e) for e in remove]),
            )
        if select.descending:
            made = sorted(made[0], key=lambda row: -row[0]), sorted(made[1], key=lambda row: -row[0])
        shown = {"": (made[0], []), "irstream": made, "rstream": (made[1], [])}[select.selector]
        return shown if shown[0] or shown[1] else None

    def reading(self, contents: Sequence[Event]) -> list[Row]:
        """The rows of the iterator: of each event that is held, or of each group of these, which all were posted."""
        select = self.select
        passes = CONDITIONS[select.where] if select.where is not None else lambda e: True
        events = [e for e in contents if passes(e)]
        keys = [self.key(e) for e in events]
        if select.fully:
            groups = distinct(keys) if select.keys else [()]
            return self.rows([None] * len(groups), groups)
        found = self.rows(events, keys)
        return sorted(found, key=lambda row: -row[0]) if select.descending else found
