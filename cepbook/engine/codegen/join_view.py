"""The view of a join: changes of its inputs become changes of combinations.

A combination is the items of all inputs in one flat tuple; where an outer join has no event, nulls stand. The pairs of
what leaves are made before the change, those of what enters after it; neither takes back what others posted earlier:
a null row stays posted when a partner comes, and does not come again when the last one goes.

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
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.window_view import ViewDelta, WindowView

MISSING_ORDINAL = -1
InputRelations = list[Relation]
ArriveFunction = Callable[[Any, Any, int], ViewDelta | None]  # (event, state of the input, now)
ChangedFunction = Callable[
    [Any, Sequence[Item], Sequence[Item]], ViewDelta | None
]  # (the view of the join, entered, left)
FindFunction = Callable[[InputRelations, Iterable[Item]], list[Item]]  # the combinations with these items of an input


def report_condition_failure(namespace: Mapping[str, Any], failure: Exception) -> None:
    """A condition on a combination failed, which the statement of `namespace` tells."""
    namespace["failed"](failure)


def ignore_condition_failure(failure: Exception) -> None:
    """It failed for a combination that leaves, and was told when that entered."""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """What the joins of one statement have in common: generated functions and facts, input by input.

    `arrive` takes the events of inputs that are streams; `changed` what that, or a named window, changes in an input.
    `find` is there for those that are `active`: their events make rows. `keeps`: it has windows, so its events are
    there for others. `gone` is `find` for what leaves: conditions that fail are not told again. `leaving`: somebody
    looks at what leaves.
    `tables` gives the present items of the inputs that are tables, by their states. `ordinals` are the places of the
    inputs' ordinals in a combination; that of a missing event is `MISSING_ORDINAL`. What comes to the inputs
    `passing` is there
    for the one change only.
    """

    arrive: Mapping[int, ArriveFunction]
    find: Mapping[int, FindFunction]
    gone: Mapping[int, FindFunction]
    changed: Mapping[int, ChangedFunction]
    contents: Callable[[InputRelations], list[Item]]
    active: tuple[bool, ...]
    keeps: tuple[bool, ...]
    leaving: bool
    ordinals: tuple[int, ...]
    tables: tuple[tuple[int, Callable[[Any], Sequence[Item]]], ...] = ()
    passing: tuple[int, ...] = ()
    layout: tuple[JoinStream, ...] = ()
    out_of_order: bool = False
    told: list[Callable[[Mapping[str, Any]], object]] = field(default_factory=list)

    def tell(self, combinations: Iterable[Item]) -> None:
        """Tell `told` of what enters: of each stream what is kept of its event, None where there is none."""
        for item in combinations:
            events = {side.name: side.event(item) for side in self.layout}
            for listener in self.told:
                listener(events)


@dataclass(frozen=True, slots=True)
class JoinStream:
    """Where the event of a stream is in a combination: its ordinal, all of it or else its kept properties."""

    name: str
    ordinal: int
    whole: int | None
    kept: tuple[tuple[str, int], ...]

    def event(self, item: Item) -> dict[str, Any] | None:
        """What is kept of the event; None of a missing one."""
        if item[self.ordinal] == MISSING_ORDINAL:
            return None
        return {name: item[place] for name, place in self.kept} if self.whole is None else dict(item[self.whole])


class JoinView(WindowView):
    """The inputs' states (each with a view of its own) and relations."""

    __slots__ = ("form", "relations", "states")

    def __init__(self, form: JoinSpec, states: list[Any], relations: InputRelations) -> None:
        super().__init__()
        self.form = form
        self.states = states
        self.relations = relations
        self.look()

    def look(self) -> None:
        """When its views want to be advanced."""
        self.due = min((state[1].due for state in self.states), default=NEVER)

    # -------------------------------------------------------------- changes
    def take_all(self, numbers: Sequence[int], event: Any, now: int) -> ViewDelta | None:
        """An event that several inputs read enters all of them before combinations are made."""
        changes = []
        for number in numbers:
            change = self.form.arrive[number](event, self.states[number], now)
            if change is not None:
                changes.append((number, change))
        self.look()
        return self._all_changed(changes)

    def take_lots(self, lots: Sequence[Sequence[Item]], now: int) -> ViewDelta | None:
        """What the items of an activation, input by input, and the time `now` change, in the order of arrival."""
        changes = []
        for number, state in enumerate(self.states):
            change = state[1].take(lots[number], now)
            if change is not None:
                changes.append((number, change))
        self.look()
        found = self._all_changed(changes)
        for number, (entered, _) in changes:
            if number in self.form.passing:
                self.relations[number].change((), entered)
        if found is None:
            return None
        batch, former = found
        return sorted(batch, key=self._place), sorted(former, key=self._place)

    def _place(self, item: Item) -> tuple[int, ...]:
        return tuple(item[place] for place in self.form.ordinals)

    def advance(self, now: int) -> ViewDelta | None:
        changes = []
        for number, state in enumerate(self.states):
            view = state[1]
            if view.due <= now:
                change = view.advance(now)
                if change is not None:
                    changes.append((number, change))
        self.look()
        return self._all_changed(changes)

    def reevaluate(self, now: int) -> None:
        for state in self.states:
            state[1].reevaluate(now)
        self.look()

    def look_at_tables(self) -> None:
        """Tables tell nobody of their changes: their rows are taken as they are."""
        for number, items in self.form.tables:
            relation = self.relations[number]
            relation.change((), list(relation.rows.values()))
            relation.change(items(self.states[number]), ())

    def _all_changed(self, changes: list[tuple[int, ViewDelta]]) -> ViewDelta | None:
        if len(changes) == 1:
            number, (entered, left) = changes[0]
            return self.form.changed[number](self, entered, left)
        form, relations = self.form, self.relations
        if form.tables:
            self.look_at_tables()
        former: dict[Any, Item] = {}
        batch: dict[Any, Item] = {}
        if form.leaving:
            for number, (_, left) in changes:
                if left and form.active[number]:
                    self._add(former, form.gone[number](relations, left))
        for number, (entered, left) in changes:
            if form.keeps[number]:
                relations[number].change(entered, left)
        for number, (entered, _) in changes:
            if form.active[number]:
                self._add(batch, form.find[number](relations, entered))
        if form.told:
            form.tell(batch.values())
        return (list(batch.values()), list(former.values())) if batch or former else None

    def _add(self, found: dict[Any, Item], items: list[Item]) -> None:
        """Each combination once, by what it consists of."""
        places = self.form.ordinals
        for item in items:
            found.setdefault(tuple(item[place] for place in places), item)

    # -------------------------------------------------------------- reading
    def contents(self) -> Iterable[Item]:
        self.look_at_tables()
        found = self.form.contents(self.relations)
        return sorted(found, key=self._place) if self.form.out_of_order else found

    def retained(self) -> int:
        return sum(state[1].retained() for state in self.states)

    def discard(self, item: Item) -> None:
        """Nothing else takes combinations away."""
