"""The regular expression of ``match_recognize``: its tree, and the automaton compiled from it.

The automaton has one *position* for every occurrence of a variable, after ``{n,m}`` and permutations are written out. A
match is a path of positions with one row each. It begins at a position of `start`, continues with a position that
`follow` lists, and ends where `END_OF_MATCH` follows. There are no empty transitions, so nested and empty loops
(``(A+)+``, ``(A?)*``) need no special treatment: paths to the same position are one path.

If the same rows can be divided among the variables in several ways, the first one in the order of `start` and `follow`
wins. The order that quantifiers give is recorded in the corpus (mr_greedy_vs_reluctant) and partly surprising:

=================  ====================================  =================================================
`X?`, `X{,m}`      takes a row rather than none          `X??` none rather than one
`X+`               goes on rather than leave             `X+?` does so, too, but leaves if what follows may be
                                                         empty (`X+? Y? Z`)
`X*`               takes a row rather than none, but     `X*?` as few rows as possible
                   then leaves rather than goes on
`X{n,}`            goes on rather than leave             `X{n,}?`, `X{n,m}?` as few rows as possible
=================  ====================================  =================================================

For the first row of a match `X*` and `X?` prefer no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add, or_

from cepbook.errors import NO_SPAN, Span

MAX_POSITIONS = 5_000
MAX_TRANSITIONS = 200_000
END_OF_MATCH = -1  # follows a position where a match may end
_NOTHING = -2  # stands for the following positions, in the first positions of a possibly empty fragment


@dataclass(frozen=True, slots=True)
class RowRegex:
    """A node of the regular expression."""

    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class RowVariable(RowRegex):
    """One row that matches variable `number`."""

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
    """``match_recognize_permute(A, B, C)``: all operands in any order."""

    operands: tuple[RowRegex, ...]


@dataclass(frozen=True, slots=True)
class RowRepeat(RowRegex):
    """``A*``, ``A+?``, ``A{2,3}``: `low` to `high` repetitions; `high` None is unbounded."""

    operand: RowRegex
    low: int
    high: int | None
    reluctant: bool = False


@dataclass(frozen=True, slots=True)
class Automaton:
    """The variable of each position, and the positions that may follow it, preferred ones first.

    `forks` lists, for each position where a match may end, the alternations that may follow: the first positions of
    each alternative.
    """

    variables: tuple[int, ...]
    start: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    forks: tuple[tuple[tuple[frozenset[int], ...], ...], ...]


class RowPatternTooLarge(Exception):
    """The pattern has more than `MAX_POSITIONS` positions or `MAX_TRANSITIONS` transitions."""


def operands(pattern: RowRegex) -> tuple[RowRegex, ...]:
    if isinstance(pattern, (RowSequence, RowAlternation, RowPermutation)):
        return pattern.operands
    return (pattern.operand,) if isinstance(pattern, RowRepeat) else ()


def most_rows(pattern: RowRegex) -> Counter[int]:
    """Return by variable how many rows a match may have of it, any number above 1 for several."""
    if isinstance(pattern, RowVariable):
        return Counter([pattern.number])
    below = [most_rows(operand) for operand in operands(pattern)]
    if isinstance(pattern, RowAlternation):
        return reduce(or_, below)
    total = reduce(add, below)
    return total + total if isinstance(pattern, RowRepeat) and pattern.high != 1 else total


def compile_automaton(pattern: RowRegex) -> Automaton:
    """Compile `pattern`. Raises RowPatternTooLarge."""
    builder = _Builder()
    root = builder.fragment(pattern)
    root.connect((END_OF_MATCH,), builder)
    forks = tuple(
        tuple(f for f in builder.forks if END_OF_MATCH in then and all(branch.issubset(then) for branch in f))
        for then in builder.follow
    )
    return Automaton(tuple(builder.variables), _positions(root.begin), tuple(builder.follow), forks)


@dataclass(slots=True)
class _Builder:
    """The positions of an automaton under construction."""

    variables: list[int] = field(default_factory=list)
    follow: list[tuple[int, ...]] = field(default_factory=list)
    forks: list[tuple[frozenset[int], ...]] = field(default_factory=list)
    steps: int = 0

    def fragment(self, pattern: RowRegex) -> _Fragment:
        """Add positions for `pattern`."""
        match pattern:
            case RowVariable():
                return self._position(pattern.number)
            case RowSequence():
                return _Sequence([self.fragment(operand) for operand in pattern.operands])
            case RowAlternation():
                fragments = [self.fragment(operand) for operand in pattern.operands]
                self.forks.append(tuple(frozenset(_positions(fragment.first)) for fragment in fragments))
                return _Alternation(fragments)
            case RowPermutation():
                return self._permutation(pattern.operands, {})
            case RowRepeat():
                return self._repeat(pattern)
        raise TypeError(f"no rule for {type(pattern).__name__}")

    def _position(self, number: int) -> _Fragment:
        if len(self.variables) >= MAX_POSITIONS:
            raise RowPatternTooLarge
        self.variables.append(number)
        self.follow.append(())
        return _Position(len(self.variables) - 1)

    def _repeat(self, pattern: RowRepeat) -> _Fragment:
        operand, low, high = pattern.operand, pattern.low, pattern.high
        alone, enters = isinstance(operand, RowVariable), not pattern.reluctant
        if high is None:
            if low == 0:
                again = _Loop(self.fragment(operand), enters and not alone)
                return _Upto([again], enters, enters and not alone)
            copies = [self.fragment(operand) for _ in range(low)]
            return _Sequence([*copies[:-1], _Loop(copies[-1], True, pattern.reluctant)])
        must = [self.fragment(operand) for _ in range(low)]
        may = [self.fragment(operand) for _ in range(high - low)]
        at_once = enters and not (alone and low == 0 and high == 1)
        return _Sequence([*must, _Upto(may, enters, at_once)] if may else must)

    def _permutation(self, left: tuple[RowRegex, ...], known: dict[tuple[RowRegex, ...], _Fragment]) -> _Fragment:
        """Every member first, then the permutations of the others, which are shared."""
        if left not in known:
            if len(left) > 12:
                raise RowPatternTooLarge
            choices: list[_Fragment] = []
            for at, first in enumerate(left):
                rest = (*left[:at], *left[at + 1 :])
                choices.append(_Sequence([self.fragment(first), *([self._permutation(rest, known)] if rest else [])]))
            known[left] = _Alternation(choices)
        return known[left]


def _in_order(*choices: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(position for choice in choices for position in choice))


def _followed_by(first: Sequence[int], behind: Sequence[int]) -> tuple[int, ...]:
    """Replace `_NOTHING` in `first` by `behind`."""
    if _NOTHING not in first:
        return tuple(first)
    at = first.index(_NOTHING)
    return _in_order(first[:at], behind, first[at + 1 :])


def _prefer(first: Sequence[int], behind: Sequence[int], enters: bool) -> tuple[int, ...]:
    """Prefer `first` (`enters`) or `behind`. A fragment that may be empty lets `behind` in at its `_NOTHING`."""
    return _in_order(_followed_by(first, behind), behind) if enters else _in_order(behind, _positions(first))


def _positions(first: Sequence[int]) -> tuple[int, ...]:
    return tuple(position for position in first if position != _NOTHING)


class _Fragment:
    """Some positions. `first` are its possible first ones, with `_NOTHING` if it may be empty; `begin` are the same in
    the order that holds for the first row of a match.
    """

    first: tuple[int, ...]
    begin: tuple[int, ...]

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        """Let the positions `behind` follow the last positions; `optional`: what stands next may be empty."""
        raise NotImplementedError


class _Position(_Fragment):
    def __init__(self, number: int) -> None:
        self.number = number
        self.first = self.begin = (number,)

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        before = builder.follow[self.number]  # of a permutation that is shared
        builder.follow[self.number] = positions = _in_order(before, behind)
        builder.steps += len(positions) - len(before)
        if builder.steps > MAX_TRANSITIONS:
            raise RowPatternTooLarge


class _Sequence(_Fragment):
    def __init__(self, fragments: Sequence[_Fragment]) -> None:
        self.fragments = fragments
        self.first = self.begin = (_NOTHING,)
        for fragment in fragments:
            self.first = _followed_by(self.first, fragment.first)
            self.begin = _followed_by(self.begin, fragment.begin)

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        for fragment in reversed(self.fragments):
            fragment.connect(behind, builder, optional)
            behind = _followed_by(fragment.first, behind)
            optional = _NOTHING in fragment.first


class _Alternation(_Fragment):
    def __init__(self, fragments: Sequence[_Fragment]) -> None:
        self.fragments = fragments
        self.first = _in_order(*(fragment.first for fragment in fragments))
        self.begin = _in_order(*(fragment.begin for fragment in fragments))
        self._connected: set[tuple[tuple[int, ...], bool]] = set()

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        if (behind, optional) not in self._connected:
            self._connected.add((behind, optional))
            for fragment in self.fragments:
                fragment.connect(behind, builder, optional)


class _Loop(_Fragment):
    """One or more repetitions. `stays` prefers to repeat, `yields` only if what follows is not optional."""

    def __init__(self, fragment: _Fragment, stays: bool, yields: bool = False) -> None:
        self.fragment = fragment
        self.stays = stays
        self.yields = yields
        self.first = fragment.first
        self.begin = fragment.begin

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        stays = self.stays and not (self.yields and optional)
        self.fragment.connect(_prefer(self.fragment.first, behind, stays), builder)


class _Upto(_Fragment):
    """The first few of `fragments` or none; `enters` prefers more, `at_once` does so for the first row of a match."""

    def __init__(self, fragments: Sequence[_Fragment], enters: bool, at_once: bool) -> None:
        self.fragments = fragments
        self.enters = enters
        self.first = _prefer(fragments[0].first, (_NOTHING,), enters)
        self.begin = _prefer(fragments[0].begin, (_NOTHING,), at_once)

    def connect(self, behind: tuple[int, ...], builder: _Builder, optional: bool = False) -> None:
        then = behind
        for fragment in reversed(self.fragments):
            fragment.connect(then, builder)
            then = _prefer(fragment.first, behind, self.enters)
