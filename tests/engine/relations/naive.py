"""Named windows, tables, on-triggers and subqueries as one would write them down: lists of rows, looked through.

A row is a dict; null is None. A condition is true, false or null as in SQL; what is not true is not met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Row = dict[str, Any]
Test = Callable[[Row, Row], bool]  # (row of the store, event)


def equal(one: Any, two: Any) -> bool:
    return one is not None and one == two


def below(one: Any, two: Any) -> bool:
    return one is not None and two is not None and one < two


def more(value: Any, by: int) -> Any:
    return None if value is None else value + by


@dataclass(frozen=True)
class Condition:
    """`text` with ``w`` for the row and ``e`` for the event; `test` says the same. `of_subquery`: as there, if not."""

    text: str
    test: Test
    of_subquery: Test | None = None


CONDITIONS = (
    Condition("w.k = e.k", lambda w, e: equal(w["k"], e["k"])),
    Condition("e.x = w.x", lambda w, e: equal(w["x"], e["x"])),
    Condition("w.k is e.k", lambda w, e: w["k"] == e["k"]),
    Condition(  # of several columns null equals null in a subquery
        "w.k = e.k and w.x = e.x",
        lambda w, e: equal(w["k"], e["k"]) and equal(w["x"], e["x"]),
        lambda w, e: w["k"] == e["k"] and w["x"] == e["x"],
    ),
    Condition("w.x < e.x", lambda w, e: below(w["x"], e["x"])),
    Condition("w.x >= e.x and w.x <= e.x + 1", lambda w, e: equal(w["x"], e["x"]) or equal(w["x"], more(e["x"], 1))),
    Condition("w.x in (e.x, 0)", lambda w, e: equal(w["x"], e["x"]) or w["x"] == 0),
    Condition("w.k in ('a', e.k)", lambda w, e: w["k"] == "a" or equal(w["k"], e["k"])),
    Condition("w.k = e.k and w.x > e.x", lambda w, e: equal(w["k"], e["k"]) and below(e["x"], w["x"])),
    Condition("w.x + 1 = e.x", lambda w, e: equal(more(w["x"], 1), e["x"])),
    Condition("w.i != e.i and w.x = 1", lambda w, e: w["i"] != e["i"] and w["x"] == 1),
    Condition("w.k = 'b'", lambda w, e: w["k"] == "b"),
    Condition("w.k = e.k or w.x = e.x", lambda w, e: equal(w["k"], e["k"]) or equal(w["x"], e["x"])),
)


# ------------------------------------------------------------------ what holds rows
class Keepall:
    """Rows in order of arrival."""

    window, of_type = "keepall", "window"

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def insert(self, row: Row) -> None:
        self.rows.append(row)
        self.limit()

    def limit(self) -> None:
        """Nothing is pushed out."""

    def delete(self, gone: Sequence[Row]) -> None:
        self.rows = [row for row in self.rows if not any(row is each for each in gone)]

    def replace(self, pairs: Sequence[tuple[Row, Row]]) -> None:
        """The rows of a window go, and arrive as others."""
        self.delete([old for old, _ in pairs])
        for _, new in pairs:
            self.insert(new)


class Last(Keepall):
    """The last rows."""

    window = "length(4)"

    def limit(self) -> None:
        del self.rows[:-4]


class Unique(Keepall):
    """The last row of each key."""

    window = "unique(k)"

    def insert(self, row: Row) -> None:
        self.rows = [each for each in self.rows if each["k"] != row["k"]]
        super().insert(row)


class ByKey(Keepall):
    """A table: an event changes the row of its key."""

    window, of_type = "", "table"

    def insert(self, row: Row) -> None:
        if row["k"] is None:
            return
        same = next((each for each in self.rows if each["k"] == row["k"]), None)
        if same is None:
            self.rows.append(row)
        else:
            same.update(x=row["x"], i=row["i"])

    def replace(self, pairs: Sequence[tuple[Row, Row]]) -> None:
        for old, new in pairs:
            old.update(new)


# ------------------------------------------------------------------ what changes rows
@dataclass(frozen=True)
class Trigger:
    """An on-trigger over the store; ``act(store, matching rows, event)`` gives the rows of an on-select."""

    text: str
    act: Callable[[Keepall, list[Row], Row], list[Row]]


def _deleted(store: Keepall, found: list[Row], e: Row) -> list[Row]:
    store.delete(found)
    return []


def _updated(store: Keepall, found: list[Row], e: Row) -> list[Row]:
    store.replace([(row, {**row, "x": e["x"], "i": row["i"] + 100}) for row in found])
    return []


def _selected(store: Keepall, found: list[Row], e: Row) -> list[Row]:
    return [{"i": row["i"], "x": row["x"], "j": e["i"]} for row in found]


def _taken(store: Keepall, found: list[Row], e: Row) -> list[Row]:
    rows = [{"i": row["i"], "x": row["x"]} for row in found]
    store.delete(found)
    return rows


def _merged(store: Keepall, found: list[Row], e: Row) -> list[Row]:
    if not found:
        store.insert({"k": e["k"], "x": e["x"], "i": e["i"]})
        return []
    gone = [row for row in found if below(1, row["x"])]
    kept = [(row, {**row, "x": more(row["x"], 1)}) for row in found if not any(row is each for each in gone)]
    store.delete(gone)
    store.replace(kept)
    return []


TRIGGERS = (
    Trigger("on B as e delete from {store} as w where {c}", _deleted),
    Trigger("on B as e update {store} as w set x = e.x, i = w.i + 100 where {c}", _updated),
    Trigger("on B as e select w.i as i, w.x as x, e.i as j from {store} as w where {c}", _selected),
    Trigger("on B as e select and delete w.i as i, w.x as x from {store} as w where {c}", _taken),
    Trigger(
        "on B as e merge {store} as w where {c} when matched and w.x > 1 then delete"
        " when matched then update set x = w.x + 1 when not matched then insert select k, x, i",
        _merged,
    ),
)


# ------------------------------------------------------------------ subqueries
def _one(found: list[Row], e: Row) -> Any:
    return found[0]["i"] if len(found) == 1 else None


def _in(found: list[Row], e: Row) -> Any:
    if not found:
        return False
    if e["x"] is None:
        return None
    if any(row["x"] == e["x"] for row in found):
        return True
    return None if any(row["x"] is None for row in found) else False


def _sum(found: list[Row], e: Row) -> Any:
    values = [row["x"] for row in found if row["x"] is not None]
    return sum(values) if values else None


def _max(found: list[Row], e: Row) -> Any:
    return max((row["x"] for row in found if row["x"] is not None), default=None)


def _grouped(found: list[Row], e: Row) -> Any:
    keys = {row["k"] for row in found}
    return len(found) if len(keys) == 1 else None


SUBQUERIES: tuple[tuple[str, Callable[[list[Row], Row], Any]], ...] = (
    ("(select i from {store} as w{where})", _one),
    ("exists (select * from {store} as w{where})", lambda found, e: bool(found)),
    ("not exists (select * from {store} as w{where})", lambda found, e: not found),
    ("e.x in (select x from {store} as w{where})", _in),
    ("(select count(*) from {store} as w{where})", lambda found, e: len(found)),
    ("(select sum(x) from {store} as w{where})", _sum),
    ("(select max(x) from {store} as w{where})", _max),
    ("(select count(*) from {store} as w{where} group by k)", _grouped),
)


def event(draw: Random, number: int) -> tuple[str, Row]:
    """The type and the event."""
    of = draw.choice("AAABBCC")
    return of, {"k": draw.choice(["a", "b", "c", None]), "x": draw.choice([None, 0, 1, 2, 3]), "i": number}
