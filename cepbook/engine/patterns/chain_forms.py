"""Finds the form in which arrays follow the partial matches of a pattern (`ChainForm`), or the reason for none."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.patterns.atom_filters import split_filter
from cepbook.engine.subscriptions.filter_index import index_conditions, leading_conditions
from cepbook.engine.vectorized.chain_form import ChainAtom, ChainForm, ChainKey, ChainStep
from cepbook.engine.vectorized.kernel_form import EXACT, OutputForm
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.pattern import EVENT_STREAM, MATCH_STREAM
from cepbook.lang.types import BITS

_KEY_KINDS = {"string": "string", "boolean": "boolean"} | dict.fromkeys(BITS, "number")  # by type; others are no keys
_MOST_ATOMS = 62  # those of a type are bits of a whole number


def chain_form(pattern: p.Pattern) -> ChainForm | str:
    """Return the form of a pattern, or the reason why it has none."""
    first, steps = pattern.leading_every
    if first is None or not steps:
        return "it is not of the form `every a=A -> …`"
    if pattern.suppress_overlapping or pattern.discard_partials:
        return "one match of its pattern removes others"
    if len(pattern.atoms) > _MOST_ATOMS:
        return "its pattern has too many events"
    try:
        return _ChainBuilder(pattern, first).form(steps)
    except Refusal as refusal:
        return refusal.reason


def _refused(what: str) -> Refusal:
    return Refusal("no-chain", f"arrays cannot follow {what} in its pattern")


class _ChainBuilder(OutputForms):
    """Builds the steps of a chain from left to right."""

    def __init__(self, pattern: p.Pattern, first: p.Atom) -> None:
        super().__init__(null_at_zero=True)  # which a pattern does not know
        self._pattern = pattern
        self._first = first
        self._steps: list[ChainStep] = []
        self._step_of: dict[str, int] = {}

    def form(self, operands: Sequence[p.PatternExpr]) -> ChainForm:
        first = self._atom(self._first)
        self._name(self._first)
        for operand in operands:
            if operand.waits is None:
                raise _refused("an operator")
            before = len(self._steps)
            for wait in operand.waits:
                self._steps.append(self._step(wait.shifted(before)))
                self._name(wait.atom)
        if len(self._steps) > 1 and any(step.atom is None for step in self._steps):
            raise _refused("a timer beside other steps")
        tags = {tag: self._step_of.get(tag) for tag in self._pattern.match_type.properties}
        return ChainForm(first, tuple(self._steps), tags)

    def _name(self, atom: p.Atom | None) -> None:
        """Note that the latest step has matched the event of an atom."""
        if atom is not None and atom.tag is not None:
            self._step_of[atom.tag] = len(self._steps)

    def _step(self, wait: p.Wait) -> ChainStep:
        own = None if wait.atom is None else self._atom(wait.atom)
        absent = tuple(map(self._atom, wait.absent))
        if own is not None and any(
            other.event_type == own.event_type and (own.bound or other.bound) for other in absent
        ):
            raise _refused("a range beside an absence")  # bounds order what one event does to both
        interval = 0 if wait.period is None else _constant(wait.period)
        deadlines = tuple((before, _constant(period)) for before, period in wait.guards)
        return ChainStep(own, interval, absent, deadlines)

    def _atom(self, atom: p.Atom) -> ChainAtom:
        parts = split_filter(atom.filter)
        if not all(map(index_conditions, parts.event)):
            raise _refused("a condition")
        keys = []
        for event, other in parts.keys:
            prop, member = event.key_property, other.tag_member(MATCH_STREAM)
            kind = _KEY_KINDS.get(event.type.name)
            plain = prop is not None and prop.stream == EVENT_STREAM and kind is not None
            if not plain or member is None or member[0] not in self._step_of or _KEY_KINDS.get(other.type.name) != kind:
                raise _refused("an equality")
            assert prop is not None
            keys.append(ChainKey(prop.name, self._step_of[member[0]], member[1]))
        comparisons = tuple(map(self.condition, parts.rest))
        bound = parts.bound
        if bound is not None:
            form = self.comparison(bound.op, bound.event, bound.match)
            if form is None:
                raise self.refusal(bound.event)
            comparisons += (form,)
        place = sum(other.event_type == atom.event_type for other in self._pattern.atoms[: atom.number])
        return ChainAtom(
            atom.number,
            atom.event_type,
            place,
            leading_conditions(parts.event),
            tuple(keys),
            comparisons,
            None if bound is None else comparisons[-1].operands[1],
        )

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        if e.property_name and e.read_stream == EVENT_STREAM:
            return OutputForm("property", e.property_name)
        member = e.tag_member(MATCH_STREAM)
        if member is None or member[0] not in self._step_of:
            return None
        return OutputForm("matched", member[1], self._step_of[member[0]])

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return _refused("a condition")


def _constant(period: x.BoundExpr) -> int:
    """Return the clock units of a period."""
    units = period.constant_millis
    if not (isinstance(units, int) and 0 < units <= EXACT):
        raise _refused("a period that is not constant")
    return units
