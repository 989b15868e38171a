"""Event patterns in the plan: a tree of typed nodes (Esper reference, chapter "EPL Reference: Patterns").

Expressions of a pattern read two streams. Stream 0 is the arriving event (atoms only). Stream 1 is the match so far: an
event whose properties are the tags. A tag is an event, or an array of events under `RepeatPattern`; it is null until
something matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import ClassVar, Literal, TypeVar

from cepbook.lang.plan import traversal
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.crontab import CrontabSpec
from cepbook.lang.plan.expressions import BoundExpr, Const, conjuncts, equality_sides, is_positive_period
from cepbook.lang.plan.key_requirement import NO_REQUIREMENT, KeyRequirement, one_of
from cepbook.lang.plan.plan_node import ContainedSelection, PlanNode

EVENT_STREAM, MATCH_STREAM = 0, 1  # the streams of a pattern's expressions
Duration = tuple[tuple[BoundExpr, ...], ...]  # periods one after the other, of several at a time the longest
Step = TypeVar("Step")


@dataclass(frozen=True, slots=True)
class Wait:
    """One step of a pattern: it waits for an event of `atom`, or without an atom for the end of `period`.

    An event of an atom in `absent` ends it without success. So does the end of each guard: a pair of the number of
    steps before the guarded ones, and a period.
    """

    atom: Atom | None
    period: BoundExpr | None
    absent: tuple[Atom, ...] = ()
    guards: tuple[tuple[int, BoundExpr], ...] = ()

    def shifted(self, steps: int) -> Wait:
        """Return the same step after so many other ones."""
        return replace(self, guards=tuple((before + steps, period) for before, period in self.guards))


def furthest_steps(step_lists: Sequence[Sequence[tuple[Step, ...]]]) -> tuple[tuple[Step, ...], ...]:
    """Return steps, each of several alternatives, that go at least as far as each of several ways."""
    return tuple(tuple(dict.fromkeys(chain(*steps))) for steps in zip_longest(*step_lists, fillvalue=()))


@dataclass(frozen=True, slots=True)
class PatternExpr(PlanNode):
    """A subexpression. It starts, may become true several times, and may end as false.

    A `timer` becomes true at a time, without an event. Under ``every`` another instance starts each time one becomes
    true if it `respawns`, and when one becomes false if it `restarts`.
    """

    timer: ClassVar[bool] = False
    respawns: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms in and below this node, in text order."""
        return tuple(sorted((n for n in walk(self) if isinstance(n, Atom)), key=lambda atom: atom.number))

    @property
    def uses_clock(self) -> bool:
        """True if an advance of the clock can make this node true, or end it; its operands do not count."""
        return self.timer

    @property
    def steps(self) -> tuple[PatternExpr, ...]:
        """The operands of ``a -> b``, and any other expression alone."""
        return (self,)

    @property
    def repeated(self) -> tuple[PatternExpr, ...]:
        """The operand of ``every``; empty for other expressions."""
        return ()

    @property
    def absent(self) -> tuple[Atom, ...]:
        """The atoms below a ``not``; empty for other expressions."""
        return ()

    @property
    def duration(self) -> Duration | None:
        """The periods after which the expression has ended, one after the other; None if it may never end."""
        return None

    @property
    def first_atom(self) -> Atom | None:
        """The atom of ``a`` and ``every a``, which must match first; None for other expressions."""
        return None

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        """The single waits, one after the other, to which the expression is equivalent; None if there are none."""
        return None

    @property
    def absent_atom(self) -> Atom | None:
        """The atom of ``not a``; None for other expressions."""
        return None


@dataclass(frozen=True, slots=True)
class Atom(PatternExpr):
    """``tag=Type(filter)``: true with the next event of the type (or a subtype) that passes the filter.

    `number` counts the atoms of the pattern from 0, in text order. `consume` is the level of ``@consume`` (0: none).
    Tags are unique, except that atoms in different branches of an ``or`` may share one. With `contained` the tag is the
    array of the events within; an event that has none is none for the atom.
    """

    number: int
    tag: str | None
    event_type: str
    filter: BoundExpr | None
    consume: int = 0
    contained: tuple[ContainedSelection, ...] = ()
    respawns: ClassVar[bool] = False  # it stays

    @property
    def first_atom(self) -> Atom:
        return self

    @property
    def waits(self) -> tuple[Wait, ...]:
        return (Wait(self, None),)

    def properties_equal_to(self, tag: str) -> dict[str, frozenset[str]]:
        """Return by property of the event `tag` the properties of this event that the filter equates with it."""
        equal: dict[str, frozenset[str]] = {}
        for inner, other in (sides for condition in conjuncts(self.filter) for sides in equality_sides(condition)):
            prop, member = inner.key_property, other.tag_member(MATCH_STREAM)
            if prop is None or member is None or prop.stream != EVENT_STREAM or prop.type != other.type:
                continue
            if member[0] == tag:
                equal[member[1]] = equal.get(member[1], frozenset()) | {prop.name}
        return equal


@dataclass(frozen=True, slots=True)
class IntervalTimer(PatternExpr):
    """``timer:interval(period)``: becomes true one `period` after its start."""

    period: BoundExpr
    timer: ClassVar[bool] = True

    @property
    def duration(self) -> Duration:
        return ((self.period,),)

    @property
    def waits(self) -> tuple[Wait, ...]:
        return (Wait(None, self.period),)


@dataclass(frozen=True, slots=True)
class CrontabTimer(PatternExpr):
    """``timer:at(…)``: becomes true at the next matching time, strictly after its start."""

    crontab: CrontabSpec
    timer: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ScheduleTimer(PatternExpr):
    """``timer:schedule``: becomes true at `date` (clock units since the epoch), then every `period`.

    It does so `repetitions` times in all; None and negative values mean without end. Without a date the first time is
    one period after the start; without a period there is one time. With `delayed` the first time is one period after
    the date.
    """

    date: BoundExpr | None
    period: BoundExpr | None
    repetitions: BoundExpr | None
    delayed: bool = False
    timer: ClassVar[bool] = True
    respawns: ClassVar[bool] = False  # it goes on
    restarts: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class FollowedByPattern(PatternExpr):
    """``a -> b -[max]> c``; `maxima` has one entry per arrow, None for no maximum."""

    operands: tuple[PatternExpr, ...]
    maxima: tuple[BoundExpr | None, ...]

    @property
    def steps(self) -> tuple[PatternExpr, ...]:
        return self.operands

    @property
    def duration(self) -> Duration | None:
        limited = any(most is not None for most in self.maxima)
        durations = [operand.duration for operand in reversed(self.operands)]
        return None if limited or None in durations else tuple(step for steps in durations for step in steps or ())

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        waits: list[Wait] = []
        for operand in self.operands:
            if operand.waits is None or any(self.maxima):
                return None
            waits += [wait.shifted(len(waits)) for wait in operand.waits]
        return tuple(waits)


@dataclass(frozen=True, slots=True)
class LogicalPattern(PatternExpr):
    """``a and b``, ``a or b``."""

    op: Literal["and", "or"]
    operands: tuple[PatternExpr, ...]

    @property
    def negated(self) -> tuple[bool, ...]:
        """For each operand, True if it is ``not a``."""
        return tuple(isinstance(operand, NotPattern) for operand in self.operands)

    @property
    def duration(self) -> Duration | None:
        durations = [a.duration for a, negated in zip(self.operands, self.negated, strict=True) if not negated]
        ends = len(durations) == len(self.operands) or (self.op == "and" and bool(durations))
        return furthest_steps([steps or () for steps in durations]) if ends and None not in durations else None

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        absent = [operand.absent_atom for operand in self.operands if operand.absent_atom is not None]
        others = [operand for operand in self.operands if operand.absent_atom is None]
        waits = others[0].waits if len(others) == 1 and self.op == "and" else None
        plain = waits is not None and len(waits) == 1 and not (waits[0].absent or waits[0].guards)
        return (replace(waits[0], absent=tuple(absent)),) if waits is not None and plain else None


@dataclass(frozen=True, slots=True)
class NotPattern(PatternExpr):
    """``not a``: true until `operand` becomes true."""

    operand: PatternExpr

    @property
    def absent(self) -> tuple[Atom, ...]:
        return self.operand.atoms

    @property
    def absent_atom(self) -> Atom | None:
        waits = self.operand.waits
        return waits[0].atom if waits is not None and waits == (Wait(waits[0].atom, None),) else None


@dataclass(frozen=True, slots=True)
class EveryPattern(PatternExpr):
    """``every a`` (`keys` is None) or ``every-distinct(keys, expiry) a``. Keys read the tags of `operand` only."""

    operand: PatternExpr
    keys: tuple[BoundExpr, ...] | None = None
    expiry: BoundExpr | None = None

    @property
    def repeated(self) -> tuple[PatternExpr, ...]:
        return (self.operand,)

    @property
    def uses_clock(self) -> bool:
        return self.expiry is not None

    @property
    def first_atom(self) -> Atom | None:
        return self.operand if isinstance(self.operand, Atom) else None


@dataclass(frozen=True, slots=True)
class RepeatPattern(PatternExpr):
    """``[3] a``, ``[2:5] a until b``, ``a until b``. `tags` are those of `operand`, which are arrays in the match.

    Bounds are int expressions known at the start, None where absent; `until` None only for ``[n]``, where low is high.
    Inside of `operand` its tags are still single events, those of the present round. A repeat inside of a repeat adds
    to the same array: there are no arrays of arrays.
    """

    operand: PatternExpr
    low: BoundExpr | None
    high: BoundExpr | None
    until: PatternExpr | None
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithinGuard(PatternExpr):
    """``where timer:within(period)`` or ``timer:withinmax(period, count)``: ends `operand` then or at match `count`."""

    operand: PatternExpr
    period: BoundExpr
    count: BoundExpr | None = None

    @property
    def uses_clock(self) -> bool:
        return True

    @property
    def duration(self) -> Duration | None:
        return ((self.period,),) if self.count is None else None

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        if self.operand.waits is None or self.count is not None:
            return None
        return tuple(replace(wait, guards=(*wait.guards, (0, self.period))) for wait in self.operand.waits)


@dataclass(frozen=True, slots=True)
class WhileGuard(PatternExpr):
    """``while (condition)``: ends `operand` with the first match for which the condition is not true."""

    operand: PatternExpr
    condition: BoundExpr

    @property
    def duration(self) -> Duration | None:
        return self.operand.duration


@dataclass(frozen=True, slots=True)
class Pattern(PlanNode):
    """A whole pattern. `match_type` is the type of its matches: single tags before arrays, each in text order."""

    root: PatternExpr
    match_type: EventType
    suppress_overlapping: bool = False
    discard_partials: bool = False

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return self.root.atoms

    @property
    def uses_clock(self) -> bool:
        """True if it has a timer, or a part that ends at a time."""
        return any(node.uses_clock for node in walk(self.root))

    @property
    def order_reason(self) -> str:
        """The reason why the pattern needs all events in order."""
        return f"its pattern follows the events {'and the clock ' if self.uses_clock else ''}of the whole stream"

    @property
    def leading_every(self) -> tuple[Atom | None, tuple[PatternExpr, ...]]:
        """The atom of ``every a=A -> …`` and the steps behind it, which begin anew at each event of the atom.

        None and () for other patterns, and if a limit, a consuming or a contained event ties the matches together.
        """
        first, *rest = self.root.steps
        plain = isinstance(first, EveryPattern) and first.keys is None and not self._limited
        alone = plain and not any(atom.consume or atom.contained for atom in self.atoms)
        atom = first.first_atom if alone else None
        return (None, ()) if atom is None else (atom, tuple(rest))

    @property
    def key_requirement(self) -> KeyRequirement:
        """The keys that divide ``every a=A -> …``: the properties of `a` that each later event equals."""
        refusal = self.order_reason
        first, rest = self.leading_every
        if self.suppress_overlapping or self.discard_partials or first is None or first.tag is None:
            return KeyRequirement(reason=refusal)
        if any(node.timer for step in rest for node in walk(step)):
            return KeyRequirement(reason=f"{refusal}, whose matches come together")
        others = [atom for atom in self.atoms if atom is not first]
        if not others:
            return NO_REQUIREMENT
        types = [first.event_type, *(atom.event_type for atom in others)]
        equal = [atom.properties_equal_to(first.tag) for atom in others]  # by property of `first`
        shared = [name for name in dict.fromkeys(chain(*equal)) if all(name in by_name for by_name in equal)]
        sides = ((frozenset({name}), *(by_name[name] for by_name in equal)) for name in shared)
        choices = (tuple(zip(types, columns, strict=True)) for columns in sides)
        return one_of(choices, f"{refusal}; events that equal `{first.tag}` in a key could be divided by it")

    @property
    def _limited(self) -> bool:
        return isinstance(self.root, FollowedByPattern) and any(m is not None for m in self.root.maxima)

    @property
    def single_tags(self) -> dict[str, str]:
        """The tags that have exactly one event in every match, with their event types."""
        atoms = [step.first_atom for step in self.root.steps]
        return {atom.tag: atom.event_type for atom in atoms if atom is not None and atom.tag is not None}


def operands(node: PatternExpr) -> tuple[PatternExpr, ...]:
    """Return the subexpressions directly below `node`, in text order."""
    values = (item for value in traversal.fields_of(node) for item in (value if isinstance(value, tuple) else (value,)))
    return tuple(item for item in values if isinstance(item, PatternExpr))


def walk(node: PatternExpr) -> list[PatternExpr]:
    """Return `node` and all its subexpressions, parents first."""
    return [child for child in traversal.walk(node) if isinstance(child, PatternExpr)]


def starts_undecided(node: PatternExpr) -> bool:
    """Return True if a new `node` is neither true nor false until an event or a later time."""
    match node:
        case Atom() | CrontabTimer():
            return True
        case IntervalTimer():
            return is_positive_period(node.period)
        case WithinGuard():
            return is_positive_period(node.period) and starts_undecided(node.operand)
        case LogicalPattern():
            waiting = [e.operand if isinstance(e, NotPattern) else e for e in node.operands]
            some = node.op == "and" and not all(node.negated)
            return (some or waiting == list(node.operands)) and all(map(starts_undecided, waiting))
        case FollowedByPattern():
            return starts_undecided(node.operands[0])
        case EveryPattern():
            return starts_undecided(node.operand)
        case RepeatPattern():
            bounds = [e for e in (node.low, node.high) if e is not None]
            known = all(isinstance(e, Const) and isinstance(e.value, int) and e.value > 0 for e in bounds)
            parts = [node.operand] if node.until is None else [node.operand, node.until]
            return known and all(map(starts_undecided, parts))
        case WhileGuard():
            return starts_undecided(node.operand)
    return False
