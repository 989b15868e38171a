"""Regular expressions with bounded matching time, for any text and pattern of `regexp`, `like` and `matches`.

Python's matcher backtracks, and for patterns such as ``(a+)+b`` its time is exponential. An upper estimate of its steps
is computed from the parse tree. Where the estimate is too high, an automaton follows all alternatives at once
(Thompson, "Regular Expression Search Algorithm", 1968) in O(len(text) * len(pattern)). The automaton supports neither
back references, lookaround, possessive or atomic groups nor conditionals; for these it raises PatternTooExpensive.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from re import _parser
from typing import Any

from cepbook.lang.java.character_classes import to_python_pattern

MAX_BACKTRACKING_STEPS = 5_000_000  # limit of backtracking steps
MAX_TEXT_LENGTH = 10_000_000  # characters; a pattern that is cheap for so many is cheap for all texts
MAX_STATES = 20_000  # limit of states of an automaton

PositionTest = Callable[[str, int], bool]  # test(text, position)
Nodes = Iterable[tuple[Any, Any]]


class PatternTooExpensive(ValueError):
    """The pattern cannot be matched against the text in bounded time."""


class RegularExpression:
    """A compiled pattern; `flags` as in `re.compile`. Raises re.error."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = re.compile(pattern, flags)
        self._parsed = _parser.parse(pattern, flags)
        self._choices, self._unbounded, self._growth = _cost(self._parsed)
        self._width = _width(self._parsed)
        longest = bisect_right(range(MAX_TEXT_LENGTH), False, key=self._is_expensive) - 1
        self._longest = math.inf if longest == MAX_TEXT_LENGTH - 1 else longest
        self._automaton: _Automaton | None = None

    def matches(self, text: str) -> bool:
        """Return whether all of `text` matches. Raises PatternTooExpensive."""
        if len(text) <= self._longest:
            return self._pattern.fullmatch(text) is not None
        return self._get_automaton().accepts(text)

    @property
    def may_fail(self) -> bool:
        """True if there are texts for which `matches` raises."""
        if self._longest == math.inf:
            return False
        try:
            self._get_automaton()
        except PatternTooExpensive:
            return True
        return False

    def _get_automaton(self) -> _Automaton:
        if self._automaton is None:
            self._automaton = _Automaton(self._parsed, self._pattern)
        return self._automaton

    def _steps(self, length: int) -> int:
        """An upper estimate of the steps that `re` takes, each of up to 16 characters; it grows with `length`."""
        exponent = math.log2(self._choices) + self._unbounded * math.log2(length + 1) + self._growth * length
        return int(2 ** min(exponent, 64)) * (1 + min(self._width, length) // 16)

    def _is_expensive(self, length: int) -> bool:
        """Return whether `re` takes more steps than the limit and more than the automaton on texts of this length."""
        steps = self._steps(length)
        return steps > MAX_BACKTRACKING_STEPS and steps > (length + 1) * (1 + self._width // 16)


@lru_cache(maxsize=512)
def compile_regular_expression(pattern: str) -> RegularExpression:
    """Compile a pattern with Java's character classes (cached). Raises re.error, UnknownCharacterClass."""
    return RegularExpression(to_python_pattern(pattern))


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _cost(nodes: Nodes) -> tuple[int, int, float]:
    """Return the number of alternatives, the number of unbounded repetitions, and the growth in bits per character.

    Matching takes about ``alternatives * (n + 1) ** unbounded * 2 ** (growth * n)`` steps for n characters. Growth
    comes from alternatives and repetitions within a repetition: in ``(a+)+b`` every character may end the inner
    repetition or not.
    """
    ways, open_, bits = 1, 0, 0.0
    for op, argument in nodes:
        inner = [_cost(child) for child in _children(str(op), argument)]
        if str(op) in _REPEATS:
            ((some, within, deeper),) = inner
            low, high = argument[0], argument[1]
            if high > 1 and (some > 1 or within or deeper):
                bits += deeper + 1 + within + math.log2(some)
                some, within = 1, 0
            if high > 1000:
                open_ += 1
            elif high > low:
                ways *= int(high) - int(low) + 1
            inner = [(some, within, deeper)]
        ways *= sum(w for w, _, _ in inner) if str(op) == "BRANCH" else math.prod(w for w, _, _ in inner)
        open_ += sum(o for _, o, _ in inner)
        bits += sum(b for _, _, b in inner)
        ways = min(ways, 1 << 64)
    return ways, open_, bits


def _width(nodes: Nodes) -> int:
    """Return how many characters the pattern reads between the ends of its unbounded repetitions, at most."""
    width = 0
    for op, argument in nodes:
        times = 1
        if str(op) in _REPEATS:
            low, high = int(argument[0]), int(argument[1])
            times = high if high <= 1000 else max(low, 1)
        width += times * max(1, sum(map(_width, _children(str(op), argument))))
    return width


def _children(op: str, argument: Any) -> list[Nodes]:
    if op == "BRANCH":
        return list(argument[1])
    if op in _REPEATS:
        return [argument[2]]
    if op == "SUBPATTERN":
        return [argument[3]]
    if op in ("ASSERT", "ASSERT_NOT"):
        return [argument[1]]
    if op == "ATOMIC_GROUP":
        return [argument]
    if op == "GROUPREF_EXISTS":
        return [child for child in argument[1:] if child is not None]
    return []


class _Automaton:
    """A nondeterministic automaton whose states are numbers.

    A state has either one consuming transition (test, target) or epsilon transitions, some guarded by a zero-width
    test.
    """

    def __init__(self, parsed: Any, pattern: re.Pattern[str]) -> None:
        self._transitions: list[tuple[PositionTest, int] | None] = []
        self._epsilon: list[list[tuple[int, PositionTest | None]]] = []
        self._pattern = pattern
        self._start = self._state()
        self._end = self._sequence(parsed, self._start, pattern.flags)

    def accepts(self, text: str) -> bool:
        current = self._epsilon_closure([self._start], text, 0)
        for at in range(len(text)):
            next_states = {move[1] for move in self._transitions_of(current) if move[0](text, at)}
            if not next_states:
                return False
            current = self._epsilon_closure(next_states, text, at + 1)
        return self._end in current

    def _transitions_of(self, states: Iterable[int]) -> Iterator[tuple[PositionTest, int]]:
        return (move for move in map(self._transitions.__getitem__, states) if move is not None)

    def _epsilon_closure(self, states: Iterable[int], text: str, at: int) -> set[int]:
        """Add the states that epsilon transitions reach."""
        reached = set(states)
        pending = list(reached)
        while pending:
            for state, test in self._epsilon[pending.pop()]:
                if state not in reached and (test is None or test(text, at)):
                    reached.add(state)
                    pending.append(state)
        return reached

    def _state(self) -> int:
        if len(self._epsilon) >= MAX_STATES:
            raise PatternTooExpensive(f"the regular expression '{self._pattern.pattern}' is too large")
        self._transitions.append(None)
        self._epsilon.append([])
        return len(self._epsilon) - 1

    def _sequence(self, nodes: Nodes, state: int, flags: int) -> int:
        """Append `nodes` after `state`; return the final state."""
        for op, argument in nodes:
            state = self._node(str(op), argument, state, flags)
        return state

    def _node(self, op: str, argument: Any, state: int, flags: int) -> int:
        if op == "BRANCH":
            end = self._state()
            for branch in argument[1]:
                begin = self._state()
                self._epsilon[state].append((begin, None))
                self._epsilon[self._sequence(branch, begin, flags)].append((end, None))
            return end
        if op in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, branch = argument
            return self._repeat(low, high, branch, state, flags)
        if op == "SUBPATTERN":
            _, added, removed, branch = argument
            return self._sequence(branch, state, (flags | added) & ~removed)
        if op == "AT":
            following = self._state()
            self._epsilon[state].append((following, _position(str(argument), flags)))
            return following
        test = _character(op, argument, flags)
        if test is None:
            message = f"the regular expression '{self._pattern.pattern}' would take too long on a text of this length"
            raise PatternTooExpensive(message)
        following = self._state()
        self._transitions[state] = (test, following)
        return self._fresh(following)

    def _fresh(self, state: int) -> int:
        """Append a state without outgoing transitions by an epsilon transition."""
        fresh = self._state()
        self._epsilon[state].append((fresh, None))
        return fresh

    def _repeat(self, low: int, high: Any, part: Any, state: int, flags: int) -> int:
        state = self._fresh(state)
        for _ in range(low):
            state = self._fresh(self._sequence(part, state, flags))
        end = self._state()
        self._epsilon[state].append((end, None))
        if str(high) == "MAXREPEAT":
            self._epsilon[self._sequence(part, self._fresh(state), flags)].append((state, None))
            return self._fresh(end)
        for _ in range(int(high) - low):
            state = self._fresh(self._sequence(part, state, flags))
            self._epsilon[state].append((end, None))
        return self._fresh(end)


def _character(op: str, argument: Any, flags: int) -> PositionTest | None:
    """Return the test of one character, or None if the automaton does not support the node."""
    accepts = _accepts(op, argument, flags)
    return None if accepts is None else lambda text, at: accepts(text[at])


def _accepts(op: str, argument: Any, flags: int) -> Callable[[str], bool] | None:
    if op == "ANY":
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    if op == "LITERAL":
        return _between(argument, argument, flags)
    if op == "NOT_LITERAL":
        same = _between(argument, argument, flags)
        return lambda c: not same(c)
    if op == "RANGE":
        return _between(argument[0], argument[1], flags)
    if op == "CATEGORY":
        return _category(str(argument), flags)
    if op != "IN":
        return None
    negated = bool(argument) and str(argument[0][0]) == "NEGATE"
    tests = [_accepts(str(inner), value, flags) for inner, value in argument[negated:]]
    if None in tests:
        return None
    return lambda c: any(test is not None and test(c) for test in tests) != negated


def _between(low: int, high: int, flags: int) -> Callable[[str], bool]:
    if not flags & re.IGNORECASE:
        return lambda c: low <= ord(c) <= high
    one = re.compile(f"[\\U{low:08x}-\\U{high:08x}]", flags & (re.ASCII | re.IGNORECASE))
    return lambda c: one.match(c) is not None


def _category(name: str, flags: int) -> Callable[[str], bool]:
    """``\\d``, ``\\s``, ``\\w`` and their complements, as defined by `re`."""
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rpartition("_")[2]]
    one = re.compile(f"\\{letter.upper() if '_NOT_' in name else letter}", flags & re.ASCII)
    return lambda c: one.match(c) is not None


def _position(name: str, flags: int) -> PositionTest:
    """``^``, ``$``, ``\\b`` and the like."""
    lines = "(?m)" if flags & re.MULTILINE else ""
    text = {
        "AT_BEGINNING": "^", "AT_BEGINNING_STRING": r"\A", "AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B",
        "AT_END": "$", "AT_END_STRING": r"\Z",
    }[name]  # fmt: skip
    pattern = re.compile(lines + text, flags & re.ASCII)
    return lambda text, at: pattern.match(text, at) is not None
