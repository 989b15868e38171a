"""The regular expression of ``match_recognize``: its tree, and the automaton that it is compiled to.

The automaton has a *position* for every place of a variable in the pattern (after ``{n,m}`` and permutations are
written out). A match is a path of positions, one row each: it begins at one of `start`, and goes on from a position to
one of those that `follow` it, or ends there where `END` follows. There are no empty steps, so nested and empty loops
(``(A+)+``, ``(A?)*``) are nothing special: ways that lead to the same position are one.

Of several ways to divide the same rows among variables the first counts, in the order of `start` and `follow`. How the
quantifiers order them is as recorded (mr_greedy_vs_reluctant), not always as one would think:

=================  ====================================  =================================================
`X?`, `X{,m}`      takes a row rather than none          `X??` none rather than one
`X+`               goes on rather than leave             `X+?` does so, too
`X*`               takes a row rather than none, but     `X*?` as few rows as possible
                   then leaves rather than goes on
`X{n,}`            goes on rather than leave             `X{n,}?`, `X{n,m}?` as few rows as possible
=================  ====================================  =================================================

For the first row of a match it is the other way round with `X*` and `X?`: no row rather than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cepbook.errors import NO_SPAN, Span

MAX_POSITIONS = 5_000
MAX_TRANSITIONS = 200_000
END_OF_MATCH = -1  # follows a position at which a match may end
_NOTHING = -2  # among the first positions of what may be empty: whatever comes behind it


@dataclass(frozen=True, slots=True)
class RowRegex:
    """A part of the regular expression."""

    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class RowVariable(RowRegex):
    """One row that is variable `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class RowSequence(RowRegex):
    """``A B C``"""

    operands: tuple[RowRegex, ...]


@dataclass(frozen=True, slots=True)
class RowAlternation(RowRegex):
    """``A | B | C``"""

    operands: tuple[RowRegex, ...]


@dataclass(frozen=True, slots=True)
class RowPermutation(RowRegex):
    """``match_recognize_permute(A, B, C)``: all of them, in any order."""

    operands: tuple[RowRegex, ...]


@dataclass(frozen=True, slots=True)
class RowRepeat(RowRegex):
    """``A*``, ``A+?``, ``A{2,3}``: `low` to `high` times (None: any number)."""

    operand: RowRegex
    low: int
    high: int | None
    reluctant: bool = False


@dataclass(frozen=True, slots=True)
class Automaton:
    """Of each position its variable, and what may follow it, first choice first."""

    variables: tuple[int, ...]
    start: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]


class RowPatternTooLarge(Exception):
    """The pattern has more positions, or more steps between them, than there may be."""


def walk(pattern: RowRegex) -> Iterator[RowRegex]:
    """`pattern` and its parts, in text order."""
    yield pattern
    for operand in operands(pattern):
        yield from walk(operand)


def operands(pattern: RowRegex) -> tuple[RowRegex, ...]:
    """The direct parts of `pattern`."""
    if isinstance(pattern, (RowSequence, RowAlternation, RowPermutation)):
        return pattern.operands
    return (pattern.operand,) if isinstance(pattern, RowRepeat) else ()


def compile_automaton(pattern: RowRegex) -> Automaton:
    """The automaton of `pattern`. Errors: TooLarge."""
    built = _Built()
    root = built.part(pattern)
    root.lead((END_OF_MATCH,), built)
    return Automaton(tuple(built.variables), _some(root.begin), tuple(built.follow))


@dataclass(slots=True)
class _Built:
    """What there is so far of an automaton."""

    variables: list[int] = field(default_factory=list)
    follow: list[tuple[int, ...]] = field(default_factory=list)
    steps: int = 0

    def part(self, pattern: RowRegex) -> _Part:
        """New positions for `pattern`."""
        match pattern:
            case RowVariable():
                return self._position(pattern.number)
            case RowSequence():
                return _Sequence([self.part(operand) for operand in pattern.operands])
            case RowAlternation():
                return _Alternation([self.part(operand) for operand in pattern.operands])
            case RowPermutation():
                return self._permutation(pattern.operands, {})
            case RowRepeat():
                return self._repeat(pattern)
        raise TypeError(f"no rule for {type(pattern).__name__}")

    def _position(self, number: int) -> _Part:
        if len(self.variables) >= MAX_POSITIONS:
            raise RowPatternTooLarge
        self.variables.append(number)
        self.follow.append(())
        return _Position(len(self.variables) - 1)

    def _repeat(self, pattern: RowRepeat) -> _Part:
        operand, low, high = pattern.operand, pattern.low, pattern.high
        alone, enters = isinstance(operand, RowVariable), not pattern.reluctant
        if high is None:
            if low == 0:
                again = _Loop(self.part(operand), enters and not alone)
                return _Upto([again], enters, enters and not alone)
            copies = [self.part(operand) for _ in range(low)]
            return _Sequence([*copies[:-1], _Loop(copies[-1], True)])
        must = [self.part(operand) for _ in range(low)]
        may = [self.part(operand) for _ in range(high - low)]
        at_once = enters and not (alone and low == 0 and high == 1)
        return _Sequence([*must, _Upto(may, enters, at_once)] if may else must)

    def _permutation(self, left: tuple[RowRegex, ...], known: dict[tuple[RowRegex, ...], _Part]) -> _Part:
        """Each member first, and behind it the permutations of the others, which are shared."""
        if left not in known:
            if len(left) > 12:
                raise RowPatternTooLarge
            ways: list[_Part] = []
            for at, first in enumerate(left):
                rest = (*left[:at], *left[at + 1 :])
                ways.append(_Sequence([self.part(first), *([self._permutation(rest, known)] if rest else [])]))
            known[left] = _Alternation(ways)
        return known[left]


def _in_order(*ways: Iterable[int]) -> tuple[int, ...]:
    """The ways one behind the other, each once."""
    return tuple(dict.fromkeys(each for some in ways for each in some))


def _then(first: Sequence[int], behind: Sequence[int]) -> tuple[int, ...]:
    """`first` with `behind` in place of nothing."""
    if _NOTHING not in first:
        return tuple(first)
    at = first.index(_NOTHING)
    return _in_order(first[:at], behind, first[at + 1 :])


def _or(first: Sequence[int], behind: Sequence[int], enters: bool) -> tuple[int, ...]:
    """`first` or else `behind`, or the other way round; what may be empty lets `behind` in where it takes nothing."""
    return _in_order(_then(first, behind), behind) if enters else _in_order(behind, _some(first))


def _some(first: Sequence[int]) -> tuple[int, ...]:
    return tuple(each for each in first if each != _NOTHING)


class _Part:
    """Some positions; `first` are those that it may begin with, `_NOTHING` among them where it may be empty.

    `begin` are the same ones in the order for the first row of a match.
    """

    first: tuple[int, ...]
    begin: tuple[int, ...]

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        """Let the last positions be followed by those `behind`."""
        raise NotImplementedError


class _Position(_Part):
    def __init__(self, number: int) -> None:
        self.number = number
        self.first = self.begin = (number,)

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        before = built.follow[self.number]  # of a permutation that is shared
        built.follow[self.number] = found = _in_order(before, behind)
        built.steps += len(found) - len(before)
        if built.steps > MAX_TRANSITIONS:
            raise RowPatternTooLarge


class _Sequence(_Part):
    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        self.first = self.begin = (_NOTHING,)
        for part in parts:
            self.first = _then(self.first, part.first)
            self.begin = _then(self.begin, part.begin)

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        for part in reversed(self.parts):
            part.lead(behind, built)
            behind = _then(part.first, behind)


class _Alternation(_Part):
    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        self.first = _in_order(*(part.first for part in parts))
        self.begin = _in_order(*(part.begin for part in parts))
        self._led: set[tuple[int, ...]] = set()

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        if behind not in self._led:
            self._led.add(behind)
            for part in self.parts:
                part.lead(behind, built)


class _Loop(_Part):
    """Once or more often."""

    def __init__(self, part: _Part, stays: bool) -> None:
        self.part = part
        self.stays = stays
        self.first = part.first
        self.begin = part.begin

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        self.part.lead(_or(self.part.first, behind, self.stays), built)


class _Upto(_Part):
    """The first few of `parts`, or none: whether it `enters` them rather, and whether `at_once`, for a first row."""

    def __init__(self, parts: Sequence[_Part], enters: bool, at_once: bool) -> None:
        self.parts = parts
        self.enters = enters
        self.first = _or(parts[0].first, (_NOTHING,), enters)
        self.begin = _or(parts[0].begin, (_NOTHING,), at_once)

    def lead(self, behind: tuple[int, ...], built: _Built) -> None:
        then = behind
        for part in reversed(self.parts):
            part.lead(then, built)
            then = _or(part.first, behind, self.enters)
