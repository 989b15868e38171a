"""Random expressions, subqueries and select lists over rows, with what they are: functions of lists of rows.

A row of a query is a tuple of events, one for each alias; None where an outer join has no event. Conditions are true,
false or null (None), as in SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Event = dict[str, Any]
Row = tuple[Event | None, ...]
Rows = list[Row]
Stores = Mapping[str, Callable[[], Sequence[Event]]]  # by the text after `from`: the present events
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


@dataclass(frozen=True)
class Term:
    text: str
    of: Callable[[Any], Any]  # of a row; of an aggregate, of all rows


def compared(op: str, a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else COMPARISONS[op](a, b)


def inverted(value: bool | None) -> bool | None:
    return None if value is None else not value


def all_true(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def any_true(values: Sequence[bool | None]) -> bool | None:
    return inverted(all_true([inverted(value) for value in values]))


def known(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


class Terms:
    """Draws terms over some aliases, whose events have k (string), x and i (int)."""

    def __init__(self, draw: Random, aliases: Sequence[str], stores: Stores) -> None:
        self.draw, self.aliases, self.stores = draw, aliases, stores

    def column(self, name: str) -> Term:
        place = self.draw.randrange(len(self.aliases))
        return Term(f"{self.aliases[place]}.{name}", lambda row: None if row[place] is None else row[place][name])

    def number(self, depth: int = 2) -> Term:
        kind = self.draw.choice(("column", "column", "constant", "sum", "case", "coalesce")[: 6 if depth else 3])
        if kind == "column":
            return self.column(self.draw.choice("xi"))
        if kind == "constant":
            value = self.draw.randrange(4)
            return Term(str(value), lambda row: value)
        a, b = self.number(depth - 1), self.number(depth - 1)
        if kind == "case":
            test = self.condition(0)
            text = f"(case when {test.text} then {a.text} else {b.text} end)"
            return Term(text, lambda row: a.of(row) if test.of(row) is True else b.of(row))
        if kind == "coalesce":
            return Term(f"coalesce({a.text}, {b.text})", lambda row: b.of(row) if a.of(row) is None else a.of(row))
        op = self.draw.choice("+-*")
        return Term(
            f"({a.text} {op} {b.text})",
            lambda row: None if None in (pair := (a.of(row), b.of(row))) else ARITHMETIC[op](*pair),
        )

    def condition(self, depth: int = 2) -> Term:
        kinds = ("compare", "compare", "text", "null", "is", "between", "in", "and", "or", "not")[: 10 if depth else 7]
        kind = "subquery" if depth == 2 and self.stores and self.draw.random() < 0.3 else self.draw.choice(kinds)
        negated = self.draw.random() < 0.3
        if kind == "subquery":
            return self.asked()
        if kind == "null":
            a = self.column(self.draw.choice("kx"))
            return Term(f"{a.text} is {'not ' * negated}null", lambda row: (a.of(row) is None) != negated)
        if kind == "is":
            name = self.draw.choice("kx")
            a, b = self.column(name), self.column(name)
            return Term(f"{a.text} is {'not ' * negated}{b.text}", lambda row: (a.of(row) == b.of(row)) != negated)
        if kind == "text":
            a, op, word = self.column("k"), self.draw.choice(("=", "!=", "<")), self.draw.choice("ab")
            return Term(f"{a.text} {op} '{word}'", lambda row: compared(op, a.of(row), word))
        if kind == "between":
            a, low = self.number(0), self.draw.randrange(3)
            return Term(f"{a.text} between {low} and {low + 1}", lambda row: a.of(row) in (low, low + 1))
        if kind == "in":
            a, b, c = self.number(0), self.number(0), self.number(0)
            text = f"{a.text} {'not ' * negated}in ({b.text}, {c.text})"
            return Term(text, lambda row: _member(a.of(row), [b.of(row), c.of(row)], negated))
        if kind in ("and", "or"):
            a, b, join = self.condition(depth - 1), self.condition(depth - 1), all_true if kind == "and" else any_true
            return Term(f"({a.text} {kind} {b.text})", lambda row: join([a.of(row), b.of(row)]))
        if kind == "not":
            a = self.condition(depth - 1)
            return Term(f"not ({a.text})", lambda row: inverted(a.of(row)))
        a, b, op = self.number(1), self.number(0), self.draw.choice([*COMPARISONS])
        return Term(f"{a.text} {op} {b.text}", lambda row: compared(op, a.of(row), b.of(row)))

    # ---------------------------------------------------------------- subqueries
    def _source(self) -> tuple[str, str, Callable[[Row], list[Event]]]:
        """A from-clause with at most one condition that reads the row, its alias, and the rows that it finds."""
        store, alias = self.draw.choice([*self.stores]), f"q{self.draw.randrange(10**6)}"
        own = Terms(self.draw, [alias], {}).condition(0) if self.draw.random() < 0.3 else None
        name, op = self.draw.choice((("k", "="), ("x", "="), ("x", "<"), ("x", ">="), ("x", "!=")))
        outer = self.column(name) if self.draw.random() < 0.6 else None
        words = [] if own is None else [own.text]
        words += [] if outer is None else [f"{alias}.{name} {op} {outer.text}"]
        where = f" where {' and '.join(words)}" if words else ""

        def found(row: Row) -> list[Event]:
            events = [e for e in self.stores[store]() if own is None or own.of((e,)) is True]
            return [e for e in events if outer is None or compared(op, e[name], outer.of(row)) is True]

        return f"from {store} as {alias}{where}", alias, found

    def asked(self) -> Term:
        """A condition that asks a subquery."""
        (source, alias, found), a = self._source(), self.column("x")
        kind, negated = self.draw.choice(("exists", "in", "any", "all", "scalar")), self.draw.random() < 0.3
        op = self.draw.choice(("<", ">="))
        if kind == "exists":
            return Term(f"{'not ' * negated}exists (select * {source})", lambda row: bool(found(row)) != negated)
        if kind == "scalar":
            value = self.answer()
            return Term(f"{a.text} {op} {value.text}", lambda row: compared(op, a.of(row), value.of(row)))
        values: Callable[[Row], list[Any]] = lambda row: [e["x"] for e in found(row)]  # noqa: E731
        if kind == "in":
            text = f"{a.text} {'not ' * negated}in (select {alias}.x {source})"
            return Term(text, lambda row: _member(a.of(row), values(row), negated) if values(row) else negated)

        def quantified(row: Row) -> bool | None:
            tests = [compared(op, a.of(row), value) for value in values(row)]
            if kind == "all" or not tests:
                return all_true(tests) if kind == "all" else False
            return True in tests if known(tests) else None  # `any` passes over nulls

        return Term(f"{a.text} {op} {kind} (select {alias}.x {source})", quantified)

    def answer(self) -> Term:
        """The value of a subquery."""
        source, alias, found = self._source()
        kind = self.draw.choice(("count", "sum", "max", "one"))
        if kind == "count":
            return Term(f"(select count(*) {source})", lambda row: len(found(row)))
        if kind == "one":
            return Term(f"(select {alias}.i {source})", lambda row: e[0]["i"] if len(e := found(row)) == 1 else None)
        of = sum if kind == "sum" else max
        values: Callable[[Row], list[int]] = lambda row: known([e["x"] for e in found(row)])  # noqa: E731
        return Term(f"(select {kind}({alias}.x) {source})", lambda row: of(v) if (v := values(row)) else None)

    # ---------------------------------------------------------------- aggregates
    def aggregate(self) -> Term:
        kind, a, test = self.draw.choice(("count", "sum", "min", "max", "avg", "distinct", "some")), *self._operands()
        if kind == "count":
            return Term("count(*)", len)
        if kind == "distinct":
            k = self.column("k")
            return Term(f"count(distinct {k.text})", lambda rows: len({*known([k.of(row) for row in rows])}))
        if kind == "some":
            return Term(f"count(*, {test.text})", lambda rows: sum(test.of(row) is True for row in rows))
        of = {"sum": sum, "min": min, "max": max, "avg": lambda values: sum(values) / len(values)}[kind]
        return Term(f"{kind}({a.text})", lambda rows: of(v) if (v := known([a.of(row) for row in rows])) else None)

    def _operands(self) -> tuple[Term, Term]:
        return self.number(1), self.condition(0)


def _member(value: Any, values: Sequence[Any], negated: bool) -> bool | None:
    found = None if value is None else any_true([compared("=", value, other) for other in values])
    return inverted(found) if negated else found


class Query:
    """A select list with group by, having, distinct, order by and limit."""

    def __init__(self, draw: Random, terms: Terms) -> None:
        self.kind = draw.choice(("plain", "plain", "total", "rows", "groups", "rollup"))
        keys = [terms.column(name) for name in draw.sample("kx", draw.choice((1, 2)))]
        self.keys = keys if self.kind in ("groups", "rollup") else []
        values = [terms.number(), terms.column("i")] + [terms.answer()] * bool(terms.stores)
        self.values = values if self.kind in ("plain", "rows") else []
        self.aggregates = [terms.aggregate(), terms.aggregate()] if self.kind != "plain" else []
        self.least = draw.randrange(3) if self.aggregates and draw.random() < 0.3 else None
        self.counted = Term("count(*)", len)
        self.distinct = draw.random() < 0.2
        width = len(self.keys) + len(self.values) + len(self.aggregates)
        places = draw.sample(range(width), draw.choice((0, 1, 2)))
        self.order = [(place, draw.random() < 0.5) for place in places]
        self.limit = draw.choice((1, 2, 3)) if self.order and not self.distinct and draw.random() < 0.4 else None

    @property
    def columns(self) -> str:
        named = [f"{term.text} as c{n}" for n, term in enumerate((*self.keys, *self.values, *self.aggregates))]
        return "distinct " * self.distinct + ", ".join(named)

    @property
    def clauses(self) -> str:
        keys = ", ".join(key.text for key in self.keys)
        text = f" group by {f'rollup({keys})' if self.kind == 'rollup' else keys}" if keys else ""
        text += "" if self.least is None else f" having count(*) > {self.least}"
        order = ", ".join(f"c{place}{' desc' * descending}" for place, descending in self.order)
        text += f" order by {order}" if order else ""
        return text + ("" if self.limit is None else f" limit {self.limit}")

    def of(self, rows: Rows) -> list[tuple[Any, ...]]:
        """The result without order and limit."""
        if self.kind == "plain":
            return [tuple(term.of(row) for term in self.values) for row in rows]
        if self.least is not None and self.kind in ("total", "rows") and len(rows) <= self.least:
            return []
        if self.kind in ("total", "rows"):
            totals = tuple(term.of(rows) for term in self.aggregates)
            return [(*(t.of(row) for t in self.values), *totals) for row in rows] if self.values else [totals]
        groups: dict[tuple[int, tuple[Any, ...]], Rows] = {}
        for row in rows:
            key = tuple(term.of(row) for term in self.keys)
            for size in range(len(key), -1 if self.kind == "rollup" else len(key) - 1, -1):
                groups.setdefault((size, (*key[:size], *[None] * (len(key) - size))), []).append(row)
        passing = [(key, own) for (_, key), own in groups.items() if self.least is None or len(own) > self.least]
        return [(*key, *(term.of(own) for term in self.aggregates)) for key, own in passing]

    def check(self, found: Sequence[Mapping[str, Any]], rows: Rows, context: object) -> None:
        """Compare a result with that of `rows`; rows that order by leaves equal may come in any order."""
        got, made = [tuple(row.values()) for row in found], self.of(rows)
        made = [*dict.fromkeys(made)] if self.distinct else made
        for place, descending in reversed(self.order):
            made.sort(key=lambda row: (row[place] is not None, row[place] or 0), reverse=descending)
        places = [place for place, _ in self.order]
        in_order = [[row[place] for place in places] for row in made[: self.limit]]
        assert [[row[place] for place in places] for row in got] == in_order, context
        if self.limit is None:
            assert Counter(map(repr, got)) == Counter(map(repr, made)), context
        else:
            assert not Counter(map(repr, got)) - Counter(map(repr, made)), context
