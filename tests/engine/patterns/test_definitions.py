"""Patterns of all operators against definitions: the matches of an expression are a function of where it starts.

An instant is (time, number of the event); timers have the number -1 and come before the events of their time. A
definition returns the matches as (instant, tags with the numbers of their events), and when and how the expression
ends: true or false. Where the answer depends on the order of two things at one instant, the case is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest

from cepbook.engine.runtime import Runtime
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

SCHEMA = "create schema A(k string, x int, n int); create schema B(k string, x int, n int);"
MOST = 300
Instant = tuple[int, int]
Tags = tuple[tuple[str, Any], ...]
Match = tuple[Instant, Tags]
Result = tuple[list[Match], tuple[Instant, bool] | None]
Test = Callable[["Definitions", Tags, int], bool]  # (history, tags before, number of the event)


class Undecided(Exception):
    """The case depends on an order within one instant, or is too large."""


class Node(NamedTuple):
    kind: str
    below: tuple[Node, ...] = ()
    text: str = ""
    tags: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()


def in_order(matches: Iterable[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: match[0])


class Definitions:
    def __init__(self, history: Sequence[tuple[int, str, dict[str, Any]]], end: int) -> None:
        self.history, self.end, self.known = history, end, dict[Any, Result]()

    def property(self, tags: Tags, tag: str, name: str) -> Any:
        return self.history[dict(tags)[tag]][2][name]

    def related(self, tags: Tags, tag: str, number: int, name: str, op: str) -> bool:
        own, other = self.history[number][2][name], self.property(tags, tag, name)
        return None not in (own, other) and (own == other if op == "=" else own > other)

    def of(self, node: Node, tags: Tags, start: Instant) -> Result:
        key = (id(node), tags, start)
        if key not in self.known:
            matches, end = getattr(self, node.kind)(node, tags, start)
            matches = [match for match in in_order(matches) if match[0][0] <= self.end]
            end = end if end is not None and end[0][0] <= self.end else None
            if len(matches) > MOST or len(self.known) > 4000:
                raise Undecided
            self.known[key] = matches, end
        return self.known[key]

    def atom(self, node: Node, tags: Tags, start: Instant) -> Result:
        type_, tests = node.values
        for number, (time, of, _) in enumerate(self.history):
            if (time, number) > start and of == type_ and all(test(self, tags, number) for test in tests):
                return [((time, number), (*tags, (node.tags[0], number)))], ((time, number), True)
        return [], None

    def every(self, node: Node, tags: Tags, start: Instant) -> Result:
        """Starts again with each match and each false end; with keys, matches of new keys only."""
        tag, name = node.values or (None, None)
        found: list[Match] = []
        keys = set[Any]()
        open_ = [(self.of(node.below[0], tags, start), 0)]
        while open_:
            heads = [(r[0][at][0] if at < len(r[0]) else (r[1] or (None,))[0], i) for i, (r, at) in enumerate(open_)]
            heads = sorted((instant, i) for instant, i in heads if instant is not None)
            if not heads:
                break
            if tag is not None and len(heads) > 1 and heads[0][0] == heads[1][0]:
                raise Undecided
            instant, i = heads[0]
            (matches, end), at = open_.pop(i)
            if at < len(matches):
                if tag is None or self.property(matches[at][1], tag, name) not in keys:
                    found.append(matches[at])
                if tag is not None:
                    keys.add(self.property(matches[at][1], tag, name))
                open_ += [((matches, end), at + 1), (self.of(node.below[0], tags, instant), 0)]
            elif end is not None and not end[1]:
                keys.clear()
                open_.append((self.of(node.below[0], tags, instant), 0))
            if len(found) + len(open_) > MOST:
                raise Undecided
        return found, None

    def then(self, node: Node, tags: Tags, start: Instant) -> Result:
        left, right = node.below
        first, ended = self.of(left, tags, start)
        runs = [self.of(right, so_far, instant) for instant, so_far in first]
        matches = [match for run in runs for match in run[0]]
        ends = [end for end in (ended, *(run[1] for run in runs)) if end is not None]
        if len(ends) <= len(runs):
            return matches, None
        last = max(instant for instant, _ in ends)
        ways = {true for end in (*(run[1] for run in runs), ended if not runs or not ended[1] else None)
                if end is not None for instant, true in [end] if instant == last}  # fmt: skip
        if len(ways) > 1:
            raise Undecided
        return matches, (last, ways.pop())

    def both(self, node: Node, tags: Tags, start: Instant) -> Result:
        """``and``; of a ``not`` the values are True, and the first match ends all."""
        plain = [below for below, absent in zip(node.below, node.values, strict=True) if not absent]
        results = [self.of(below, tags, start) for below in plain]
        cancelled = [self.of(below, tags, start)[1] for below in node.below if below not in plain]
        falses = [(end[0], 1) for _, end in results if end is not None and not end[1]]
        falses += [(end[0], 0) for end in cancelled if end is not None]
        stop = min(falses, default=None)
        matches: list[Match] = []
        for parts in product(*(found for found, _ in results)):
            instant = max(part[0] for part in parts)
            if stop is not None and instant == stop[0] and stop[1]:
                raise Undecided
            if stop is None or instant < stop[0]:
                own = {tag: value for part in parts for tag, value in part[1]}
                matches.append((instant, tuple(own.items())))
            if len(matches) > MOST:
                raise Undecided
        trues = [end[0] for _, end in results if end is not None and end[1]]
        if len(trues) == len(results) and (stop is None or max(trues) < stop[0]):
            return matches, (max(trues), True)
        return matches, None if stop is None else (stop[0], False)

    def either(self, node: Node, tags: Tags, start: Instant) -> Result:
        results = [self.of(below, tags, start) for below in node.below]
        trues = [end[0] for _, end in results if end is not None and end[1]]
        matches = [match for found, _ in results for match in found]
        if trues:
            last = min(trues)
            if sum(any(instant == last for instant, _ in found) for found, _ in results) > 1:
                raise Undecided
            return [match for match in matches if match[0] <= last], (last, True)
        ends = [end[0] for _, end in results if end is not None]
        return matches, (max(ends), False) if len(ends) == len(results) else None

    def within(self, node: Node, tags: Tags, start: Instant) -> Result:
        matches, end = self.of(node.below[0], tags, start)
        limit = (start[0] + node.values[0], -1)
        if any(instant == limit for instant, _ in (*matches, *filter(None, [end]))):
            raise Undecided
        early = end is not None and end[0] < limit
        return [match for match in matches if match[0] < limit], end if early else (limit, False)

    def while_(self, node: Node, tags: Tags, start: Instant) -> Result:
        matches, end = self.of(node.below[0], tags, start)
        tag, least = node.values
        for place, (instant, own) in enumerate(matches):
            x = self.property(own, tag, "x")
            if x is None or x < least:
                return matches[:place], (instant, False)
        return matches, end

    def repeat(self, node: Node, tags: Tags, start: Instant) -> Result:
        """Matches one after the other; an event of the second expression that is too early makes it false."""
        least, most = node.values
        found: list[Tags] = []
        item = self.of(node.below[0], tags, start)
        until = self.of(node.below[1], tags, start) if len(node.below) > 1 else ([], None)
        at = 0
        for _ in range(MOST):
            open_ = most is None or len(found) < most
            match = item[0][at] if open_ and at < len(item[0]) else None
            false = item[1][0] if open_ and match is None and item[1] is not None else None
            stop = until[0][0][0] if until[0] else None
            instants = [instant for instant in (match and match[0], false, stop) if instant is not None]
            if not instants:
                return [], None
            now = min(instants)
            if stop == now:
                if least is not None and len(found) < least:
                    return [], (now, False)
                return [(now, (*self._arrays(node, tags, found), *until[0][0][1][len(tags) :]))], (now, True)
            if match is None or match[0] != now:
                return [], (now, False)
            found.append(match[1][len(tags) :])
            at += 1
            if most is not None and len(found) == most and least == most:
                return [(now, self._arrays(node, tags, found))], (now, True)
            if at < len(item[0]) and item[0][at][0] == now:
                raise Undecided
            if at == len(item[0]) and item[1] is not None and item[1][1]:
                item, at = self.of(node.below[0], tags, now), 0
        raise Undecided

    def _arrays(self, node: Node, tags: Tags, found: list[Tags]) -> Tags:
        arrays = {tag: tuple(value for own in found for name, value in own if name == tag) for tag in node.tags}
        return (*tags, *((tag, values) for tag, values in arrays.items() if values))


class Patterns:
    """Random patterns. Periods differ in their last digits, so that no two timers meet."""

    def __init__(self, draw: Random) -> None:
        self.draw, self.count, self.periods = draw, 0, 0

    def atom(self, known: tuple[str, ...]) -> Node:
        draw, type_ = self.draw, self.draw.choice("AAB")
        self.count += 1
        tag, tests, words = f"t{self.count}", [], []
        if draw.random() < 0.3:
            least = draw.choice((0, 1))
            words.append(f"x > {least}")
            tests.append(lambda all_, _, n: (all_.history[n][2]["x"] or 0) > least)
        if known and draw.random() < 0.5:
            other, name, op = draw.choice(known), *draw.choice((("k", "="), ("x", ">")))
            words.append(f"{name} {op} {other}.{name}")
            tests.append(lambda all_, tags, n: all_.related(tags, other, n, name, op))
        text = f"{tag}={type_}" + (f"({' and '.join(words)})" if words else "")
        return Node("atom", (), text, (tag,), (type_, tuple(tests)))

    def period(self) -> int:
        self.periods += 1
        return self.draw.choice((1000, 2000, 4000)) + 17 * self.periods

    def node(self, depth: int, known: tuple[str, ...] = (), *, in_repeat: bool = False) -> tuple[Node, tuple[str, ...]]:
        """A pattern, and the tags that later parts may read."""
        kinds = "every every then then then and and_not or within while distinct repeat until".split()
        kind = self.draw.choice(kinds) if depth else "atom"
        if kind == "atom" or (in_repeat and kind in ("repeat", "until")):
            atom = self.atom(known)
            return atom, atom.tags
        before = self.count
        left, own = self.node(depth - 1, known, in_repeat=in_repeat or kind in ("repeat", "until"))
        if kind in ("then", "and", "or"):
            right, more = self.node(depth - 1, known + own * (kind == "then"), in_repeat=in_repeat)
            name, word = {"then": ("then", "->"), "and": ("both", "and"), "or": ("either", "or")}[kind]
            tags = () if kind == "or" else own + more
            return Node(name, (left, right), f"({left.text} {word} {right.text})", (), (False, False)), tags
        if kind == "and_not":
            absent = self.atom(known)
            return Node("both", (left, absent), f"({left.text} and not {absent.text})", (), (False, True)), own
        if kind == "within":
            period = self.period()
            return Node("within", (left,), f"({left.text} where timer:within({period} msec))", (), (period,)), own
        if kind == "while" and own:
            tag, least = self.draw.choice(own), self.draw.choice((0, 1))
            return Node("while_", (left,), f"({left.text} while ({tag}.x >= {least}))", (), (tag, least)), own
        if kind == "distinct" and own:
            tag, name = self.draw.choice(own), self.draw.choice("kx")
            return Node("every", (left,), f"(every-distinct({tag}.{name}) {left.text})", (), (tag, name)), own
        tags = tuple(f"t{number}" for number in range(before + 1, self.count + 1))
        if kind == "repeat":
            return Node("repeat", (left,), f"([2] {left.text})", tags, (2, 2)), ()
        if kind == "until":
            stop = self.atom(known)
            least, most = self.draw.choice(((None, None), (1, None), (2, None), (None, 2), (1, 2), (2, 2)))
            bounds = f"[{least or ''}:{most or ''}] " if least or most else ""
            text = f"({bounds}{left.text} until {stop.text})"
            return Node("repeat", (left, stop), text, tags, (least, most)), ()
        return Node("every", (left,), f"(every {left.text})"), own


def history(draw: Random) -> list[tuple[int, str, dict[str, Any]]]:
    time, events = 0, []
    for number in range(draw.choice((8, 16))):
        time += draw.choice((1, 1001, 1001, 2001))
        values = {"k": draw.choice(("a", "b", None)), "x": draw.choice((None, 0, 1, 2)), "n": number}
        events.append((time, draw.choice("AAAB"), values))
    return events


def numbers(value: Any) -> Any:
    return tuple(map(numbers, value)) if isinstance(value, list | tuple) else value["n"]


@pytest.mark.parametrize("block", range(12))
def test_patterns_against_definitions(block: int) -> None:
    decided, cases = 0, seeds(100)
    for seed in cases:
        draw = Random(f"{block} {seed}")
        pattern, _ = Patterns(draw).node(draw.choice((2, 3, 3, 4)))
        events = history(draw)
        end = events[-1][0] + 5000
        try:
            matches, _ = Definitions(events, end).of(pattern, (), (0, -1))
        except Undecided:
            continue
        found = Counter[Any]()
        runtime = Runtime()
        runtime.deploy(f"{SCHEMA} @name('s') select * from pattern [{pattern.text}]")

        def note(delta: Any, found: Counter[Any] = found, runtime: Runtime = runtime) -> None:
            for row in delta.insert or ():
                own = sorted((tag, numbers(value)) for tag, value in row.items() if value is not None)
                found[runtime.now, tuple(own)] += 1

        runtime.statement("s").add_listener(note)
        for time, of, values in events:
            runtime.advance(time, stepping=True)
            runtime.send(of, dict(values))
        runtime.advance(end, stepping=True)
        expected = Counter((instant[0], tuple(sorted(tags))) for instant, tags in matches)
        assert found == expected, f"{block} {seed}: {pattern.text}"
        decided += 1
    assert decided > len(cases) * 0.7
