"""Regular expressions over rows, drawn at random, and a naive search for their matches: all ways to divide the rows
between two ends, one after the other, by backtracking.

A pattern is a tuple: ``("row", "A")``, ``("seq", …)``, ``("alt", …)``, ``("permute", …)``, ``("repeat", p, low, high,
reluctant)``. The order of the ways is that of `cepbook.lang.plan.row_pattern`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import Any

Row = dict[str, Any]
Pattern = tuple[Any, ...]
Way = tuple[str, ...]  # the variable of each row
Test = Callable[[Row, Sequence[Row], dict[str, list[Row]]], bool]  # row, rows before it, rows so far


class TooMany(Exception):
    """There are too many ways to look at."""


@dataclass
class Clause:
    """One match_recognize, drawn at random: as text, and as what the reference asks."""

    pattern: Pattern
    conditions: dict[str, tuple[str, Test]]
    skip: str
    all_matches: bool
    partitioned: bool
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = list(dict.fromkeys(leaves(self.pattern)))
        self.many = many(self.pattern)
        self.open = False  # whether the ways that were looked through last may go on

    def epl(self, window: str = "") -> str:
        measures = [f"window({v}.i) as {v}" if v in self.many else f"{v}.i as {v}" for v in self.names]
        define = ", ".join(f"{v} as {text}" for v, (text, _) in self.conditions.items())
        return (
            f"select * from R{window} match_recognize ({'partition by g ' * self.partitioned}"
            f"measures {', '.join(measures)} {'all matches ' * self.all_matches}after match skip {self.skip} "
            f"pattern ({text_of(self.pattern)}) {'define ' * bool(define)}{define})"
        )

    def shown(self, way: Way, rows: Sequence[Row]) -> Row:
        """The event of a match."""
        found: Row = {}
        for name in self.names:
            ids = [row["i"] for row, variable in zip(rows, way, strict=True) if variable == name]
            found[name] = (ids or None) if name in self.many else (ids[0] if ids else None)
        return found

    # -------------------------------------------------------------- matching
    def ways(self, rows: Sequence[Row], begin: int, end: int) -> list[Way]:
        """All ways to divide rows[begin..end], first choice first, each once. `before` of a row are those before it, if
        they are not those of `rows`.
        """
        steps, self.open = 0, False

        def test(name: str, at: int, so_far: Way) -> bool:
            nonlocal steps
            steps += 1
            if steps > 20_000:
                raise TooMany
            if name not in self.conditions:
                return True
            matched: dict[str, list[Row]] = {}
            for place, variable in enumerate(so_far):
                matched.setdefault(variable, []).append(rows[begin + place])
            return self.conditions[name][1](rows[at], rows[at].get("before", rows[:at]), matched)

        def run(
            node: Pattern, so_far: Way, then: Callable[[Way], Iterator[Way]], optional: bool = False
        ) -> Iterator[Way]:
            """`optional`: what stands next in the pattern may be empty."""
            kind, *parts = node
            if kind == "row":
                at = begin + len(so_far)
                self.open = self.open or at > end
                if at <= end and test(parts[0], at, so_far):
                    yield from then((*so_far, parts[0]))
            elif kind == "seq":
                yield from run_all(parts, so_far, then, optional)
            elif kind == "alt":
                for part in parts:
                    yield from run(part, so_far, then, optional)
            elif kind == "permute":
                for order in permutations(parts):
                    yield from run_all(order, so_far, then, optional)
            else:
                yield from repeat(*parts, so_far, then, optional)

        def run_all(
            parts: Sequence[Pattern], so_far: Way, then: Callable[[Way], Iterator[Way]], optional: bool
        ) -> Iterator[Way]:
            if not parts:
                yield from then(so_far)
                return
            first, *rest = parts
            next_optional = empty(rest[0]) if rest else optional
            yield from run(first, so_far, lambda way: run_all(rest, way, then, optional), next_optional)

        def repeat(
            part: Pattern,
            low: int,
            high: int | None,
            reluctant: bool,
            so_far: Way,
            then: Callable[[Way], Iterator[Way]],
            optional: bool,
        ) -> Iterator[Way]:
            alone = part[0] == "row"

            def again(way: Way, done: int, before: int) -> Iterator[Way]:
                """`done` times so far, the last one with as many rows as came since `before`."""
                must = done < low
                if done > low and len(way) == before:
                    yield from then(way)  # it was empty: more of it is nothing new
                    return

                def more() -> Iterator[Way]:
                    if high is None or done < high:
                        next_optional = False
                        if done + 1 < low:
                            next_optional = empty(part)
                        elif done + 1 == low and high is not None:
                            next_optional = high > low or optional
                        yield from run(part, way, lambda longer: again(longer, done + 1, len(way)), next_optional)

                def leave() -> Iterator[Way]:
                    yield from then(way)

                if must:
                    yield from more()
                    return
                begins = not way
                if high is not None:
                    first_more = not (reluctant or (begins and (low, high) == (0, 1) and alone))
                elif low:
                    first_more = not reluctant or (low == 1 and not optional)  # `X+?` goes on, too (recorded)
                elif done:
                    first_more = not (alone or reluctant)
                else:
                    first_more = not (reluctant or (alone and begins))
                for choice in (more, leave) if first_more else (leave, more):
                    yield from choice()

            yield from again(so_far, 0, -1)

        def whole(way: Way) -> Iterator[Way]:
            if len(way) == end - begin + 1:
                yield way

        return list(dict.fromkeys(run(self.pattern, (), whole)))

    def iterated(self, rows: Sequence[Row]) -> list[Row]:
        """What the iterator shows of these rows: the longest matches, or all of them, of each beginning."""
        found: list[tuple[int, Row]] = []
        of_key: dict[Any, list[Row]] = {}
        for row in rows:
            of_key.setdefault(row["g"] if self.partitioned else None, []).append(row)
        for own in of_key.values():
            begin = 0
            while begin < len(own):
                ends = [(end, self.ways(own, begin, end)) for end in reversed(range(begin, len(own)))]
                ends = [(end, ways) for end, ways in ends if ways]
                for end, ways in ends if self.all_matches else ends[:1]:
                    for way in ways if self.all_matches else ways[:1]:
                        found.append((rows.index(own[begin]), self.shown(way, own[begin : end + 1])))
                begin = ends[0][0] + 1 if ends and self.skip == "past last row" else begin + 1
        return [shown for _, shown in sorted(found, key=lambda each: each[0])]

    def matches(self, rows: Sequence[Row], width: int | None = None) -> list[list[Row]]:
        """Of each row the events that it makes; `width`: of a length window."""
        found: list[list[Row]] = [[] for _ in rows]
        of_key: dict[Any, list[Row]] = {}
        for row in rows:
            of_key.setdefault(row["g"] if self.partitioned else None, []).append(row)
        for own in of_key.values():
            last, done = -1, set[int]()
            for end, row in enumerate(own):
                told: list[tuple[int, Way]] = []
                for begin in range(end + 1):
                    inside = width is None or own[begin]["i"] > row["i"] - width
                    if not inside or begin <= last or begin in done:
                        continue
                    ways = self.ways(own, begin, end)
                    told += [(begin, way) for way in (ways if self.all_matches else ways[:1])]
                if told and self.skip == "past last row":
                    told, last = told if self.all_matches else told[:1], end
                if self.skip == "to next row":
                    done.update(begin for begin, _ in told)
                found[row["i"]] += [self.shown(way, own[begin : end + 1]) for begin, way in told]
        return found


def empty(node: Pattern) -> bool:
    """Whether it may take no row."""
    kind, *parts = node
    if kind == "row":
        return False
    if kind == "repeat":
        return parts[1] == 0 or empty(parts[0])
    return any(map(empty, parts)) if kind == "alt" else all(map(empty, parts))


def leaves(node: Pattern) -> Iterator[str]:
    """The variables, in text order."""
    if node[0] == "row":
        yield node[1]
    else:
        for part in node[1:]:
            if isinstance(part, tuple):
                yield from leaves(part)


def many(node: Pattern) -> set[str]:
    """The variables that may have several rows."""
    return {name for name, rows in most(node).items() if rows > 1}


def most(node: Pattern) -> Counter[str]:
    """How many rows a variable may have, 2 for several."""
    kind, *parts = node
    if kind == "row":
        return Counter(parts)
    if kind == "repeat":
        below = most(parts[0])
        return below if parts[2] == 1 else below + below
    counts = Counter[str]()
    for part in parts:
        counts = counts | most(part) if kind == "alt" else counts + most(part)
    return counts


def text_of(node: Pattern) -> str:
    kind, *parts = node
    if kind == "row":
        return str(parts[0])
    if kind == "seq":
        return f"({' '.join(map(text_of, parts))})"
    if kind == "alt":
        return f"({' | '.join(map(text_of, parts))})"
    if kind == "permute":
        return f"match_recognize_permute({', '.join(map(text_of, parts))})"
    part, low, high, reluctant = parts
    shapes = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (low, high) in shapes:
        return f"{text_of(part) if part[0] == 'row' else f'({text_of(part)})'}{shapes[low, high]}{'?' * reluctant}"
    bounds = f"{{{low}}}" if low == high else f"{{{low or ''},{'' if high is None else high}}}"
    return f"{text_of(part) if part[0] == 'row' else f'({text_of(part)})'}{bounds}{'?' * reluctant}"


class Clauses:
    """Draws clauses; the same seed, the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def clause(self, **fixed: Any) -> Clause:
        draw = self.random
        while True:
            pattern = self.node(3)
            if not empty(pattern) and len(set(leaves(pattern))) <= 4:
                break
        facts = {
            "skip": draw.choice(("past last row", "to next row", "to current row")),
            "all_matches": draw.random() < 0.3,
            "partitioned": draw.random() < 0.3,
        }
        facts.update(fixed)
        return Clause(pattern, self.conditions(pattern), **facts)

    def node(self, depth: int) -> Pattern:
        draw = self.random
        if not depth or draw.random() < 0.15:
            return ("row", draw.choice("ABCD"))
        kind = draw.choice(("seq", "seq", "seq", "alt", "repeat", "repeat", "repeat", "permute"))
        if kind == "repeat":
            low, high = draw.choice(((0, None), (1, None), (0, 1), (2, 2), (2, None), (0, 2), (1, 3), (2, 3)))
            reluctant = draw.random() < 0.3
            part = self.node(depth - 1)
            return ("repeat", ("seq", part) if part[0] == "repeat" else part, low, high, reluctant)
        if kind == "permute":
            parts = [self.node(0) if draw.random() < 0.8 else ("seq", self.node(0), self.node(0)) for _ in range(2)]
            return ("permute", *parts)
        return (kind, *(self.node(depth - 1) for _ in range(draw.choice((2, 2, 3)))))

    def conditions(self, pattern: Pattern) -> dict[str, tuple[str, Test]]:
        names, several = list(dict.fromkeys(leaves(pattern))), many(pattern)
        found: dict[str, tuple[str, Test]] = {}
        for place, name in enumerate(names):
            if self.random.random() < 0.75:
                found[name] = self.condition(name, names[:place], several)
        return found

    def condition(self, name: str, earlier: Sequence[str], several: set[str]) -> tuple[str, Test]:
        draw, least = self.random, self.random.randint(0, 3)
        kinds = ["plain", "plain", "prev"] + (["other", "other"] if earlier else []) + ["own"] * (name in several)
        kind = draw.choice(kinds)
        if kind == "plain":
            if draw.random() < 0.5:
                return f"{name}.x >= {least}", lambda row, before, so_far: row["x"] >= least
            return f"{name}.x < {least + 1}", lambda row, before, so_far: row["x"] < least + 1
        if kind == "prev":
            back = draw.choice((1, 2))

            def falls(row: Row, before: Sequence[Row], so_far: dict[str, list[Row]]) -> bool:
                return len(before) >= back and row["x"] <= before[-back]["x"]

            return f"{name}.x <= prev({name}.x, {back})", falls
        if kind == "own":
            most = draw.choice((1, 2))

            def few(row: Row, before: Sequence[Row], so_far: dict[str, list[Row]]) -> bool:
                return len(so_far.get(name, ())) <= most

            return f"coalesce({name}.countOf(), 0) <= {most}", few
        other = draw.choice(earlier)
        if other not in several:

            def above(row: Row, before: Sequence[Row], so_far: dict[str, list[Row]]) -> bool:
                return other not in so_far or row["x"] >= so_far[other][0]["x"]

            return f"{other}.x is null or {name}.x >= {other}.x", above
        if draw.random() < 0.5:

            def as_first(row: Row, before: Sequence[Row], so_far: dict[str, list[Row]]) -> bool:
                return other not in so_far or row["x"] >= so_far[other][0]["x"]

            return f"{other}[0].x is null or {name}.x >= {other}[0].x", as_first

        def as_last(row: Row, before: Sequence[Row], so_far: dict[str, list[Row]]) -> bool:
            return other not in so_far or row["x"] != so_far[other][-1]["x"]

        return f"{other}.lastOf().x is null or {name}.x != {other}.lastOf().x", as_last


def history(draw: Random, length: int) -> list[Row]:
    """Rows numbered by `i`, with values `x` and groups `g`."""
    return [{"i": i, "x": draw.randint(0, 4), "g": draw.choice("ab")} for i in range(length)]
