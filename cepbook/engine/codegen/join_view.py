"""The view of a join: deltas of its inputs become deltas of combinations.

A combination is the items of all inputs in one flat tuple, with nulls where an outer join has no event. Pairs of left
items are made before the change, pairs of entered items after it. Neither takes back what was posted earlier: a null
row stays posted when a partner arrives, and is not posted again when the last partner leaves.

::

    left outer join on k     a1      b1         a1 leaves
    entered                  a1,-    a1,b1
    left                                        a1,b1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.relations.relation import Item, Relation
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.view_wrappers import ActivationView
from cepbook.engine.windows.window_view import ViewDelta, WindowView

MISSING_ORDINAL = -1
InputRelations = list[Relation]
ArriveFunction = Callable[[Any, Any, int], ViewDelta | None]  # (event, state of the input, now)
ChangedFunction = Callable[[Any, Sequence[Item], Sequence[Item]], ViewDelta | None]  # (view, entered, left)
FindFunction = Callable[[InputRelations, Iterable[Item]], list[Item]]  # the combinations with these items of an input


def report_condition_failure(namespace: Mapping[str, Any], failure: Exception) -> None:
    """Report that a condition on a combination failed."""
    namespace["failed"](failure)


def ignore_condition_failure(failure: Exception) -> None:
    """Ignore the failure for a combination that leaves; it was reported when the combination entered."""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """The generated functions and facts that all joins of one statement share, by input.

    `arrive` takes events of inputs that are streams, `changed` takes their deltas. `find` returns combinations; only
    `active` inputs, whose events make rows, have it. `find_left` is `find` for left items, without reports of failures.
    `keeps` is True for inputs with windows, whose events are kept for others. `leaving` is True if left combinations
    are visible.

    `tables` returns the present items of inputs that are tables. `ordinals` are the positions of the inputs' ordinals
    in a combination; a missing event has `MISSING_ORDINAL`. Events of the inputs `passing` count for one delta only;
    those of `transient` inputs are found in reverse order (recorded:
    unidirectional_join_with_contained_events_of_the_same_event).
    """

    arrive: Mapping[int, ArriveFunction]
    find: Mapping[int, FindFunction]
    find_left: Mapping[int, FindFunction]
    changed: Mapping[int, ChangedFunction]
    contents: Callable[[InputRelations], list[Item]]
    active: tuple[bool, ...]
    keeps: tuple[bool, ...]
    leaving: bool
    ordinals: tuple[int, ...]
    passing: tuple[bool, ...]
    transient: tuple[bool, ...]
    tables: tuple[tuple[int, Callable[[Any], Sequence[Item]]], ...] = ()
    layout: tuple[JoinStream, ...] = ()
    out_of_order: bool = False
    listeners: list[Callable[[Mapping[str, Any]], object]] = field(default_factory=list)

    def notify(self, combinations: Iterable[Item]) -> None:
        """Pass the events of entered combinations to listeners, by stream; None for a missing event."""
        for item in combinations:
            events = {side.name: side.event(item) for side in self.layout}
            for listener in self.listeners:
                listener(events)


@dataclass(frozen=True, slots=True)
class JoinStream:
    """The position of a stream's event in a combination: of its ordinal, and of the whole event or its properties."""

    name: str
    ordinal: int
    whole: int | None
    retained: tuple[tuple[str, int], ...]

    def event(self, item: Item) -> dict[str, Any] | None:
        """Return the retained properties of the event; None if it is missing."""
        if item[self.ordinal] == MISSING_ORDINAL:
            return None
        return {name: item[place] for name, place in self.retained} if self.whole is None else dict(item[self.whole])


class JoinView(WindowView):
    """The states of the inputs, each with a view of its own, and the relations."""

    spec: JoinSpec
    states: list[StatementState]
    relations: InputRelations

    def __post_init__(self) -> None:
        self.update_due()

    def update_due(self) -> None:
        """Set `due` to the earliest time at which an input must be advanced."""
        self.due = min((state.view.due for state in self.states), default=NEVER)

    def take_all(self, arrivals: Iterable[tuple[int, Any]], now: int) -> ViewDelta | None:
        """Let events enter their inputs, which are in order, before combinations are made."""
        changes: dict[int, ViewDelta] = {}
        for number, event in arrivals:
            change = self.spec.arrive[number](event, self.states[number], now)
            if change is not None:
                earlier = changes.get(number)
                both = change if earlier is None else ([*earlier[0], *change[0]], [*earlier[1], *change[1]])
                changes[number] = both
        self.update_due()
        return self.all_changed([*changes.items()])

    def take_lots(self, lots: Sequence[Sequence[Item]], now: int) -> ViewDelta | None:
        """Take the items of an activation, by input; return the delta in the order of arrival."""
        changes = []
        for number, state in enumerate(self.states):
            assert isinstance(state.view, ActivationView)
            change = state.view.take(lots[number], now)
            if change is not None:
                changes.append((number, change))
        self.update_due()
        delta = self.all_changed(changes)
        if delta is None:
            return None
        batch, former = delta
        return sorted(batch, key=self._ordinals), sorted(former, key=self._ordinals)

    def _ordinals(self, item: Item) -> tuple[int, ...]:
        return tuple(item[place] for place in self.spec.ordinals)

    def advance(self, now: int) -> ViewDelta | None:
        changes = []
        for number, state in enumerate(self.states):
            view = state.view
            if view.due <= now:
                change = view.advance(now)
                if change is not None:
                    changes.append((number, change))
        self.update_due()
        return self.all_changed(changes)

    def reevaluate(self, now: int) -> None:
        for state in self.states:
            state.view.reevaluate(now)
        self.update_due()

    def copy_tables(self) -> None:
        """Copy the present rows of tables, which do not report their changes."""
        for number, items in self.spec.tables:
            relation = self.relations[number]
            relation.change((), list(relation.rows.values()))
            relation.change(items(self.states[number]), ())

    def all_changed(self, changes: list[tuple[int, ViewDelta]]) -> ViewDelta | None:
        """Return the delta of the combinations that the deltas of some inputs, in order, make together."""
        if len(changes) == 1:
            number, (entered, left) = changes[0]
            return self.spec.changed[number](self, entered, left)
        spec, relations = self.spec, self.relations
        if spec.tables:
            self.copy_tables()
        former: dict[Any, Item] = {}
        batch: dict[Any, Item] = {}
        if spec.leaving:
            for number, (_, left) in changes:
                if left and spec.active[number]:
                    self._add(former, spec.find_left[number](relations, left))
        for number, (entered, left) in changes:
            if spec.keeps[number] or spec.passing[number]:
                relations[number].change(entered[::-1] if spec.transient[number] else entered, left)
        try:
            for number, (entered, _) in changes:
                if spec.active[number]:
                    self._add(batch, spec.find[number](relations, entered))
        finally:
            for number, (entered, _) in changes:
                if spec.passing[number]:
                    relations[number].change((), entered)
        if spec.listeners:
            spec.notify(batch.values())
        return (list(batch.values()), list(former.values())) if batch or former else None

    def _add(self, combinations: dict[Any, Item], items: list[Item]) -> None:
        places = self.spec.ordinals
        for item in items:
            combinations.setdefault(tuple(item[place] for place in places), item)

    def contents(self) -> Iterable[Item]:
        self.copy_tables()
        combinations = self.spec.contents(self.relations)
        return sorted(combinations, key=self._ordinals) if self.spec.out_of_order else combinations

    def retained(self) -> int:
        return sum(state.view.retained() for state in self.states)

    def discard(self, item: Item) -> None:
        """Do nothing, since only the inputs remove combinations."""
