"""A stage: rows divided by keys, each part in a window of its own (a leaf), maybe with aggregates.

Leaves have the order in which they were made. One that is empty, has nothing waiting and is not pinned is dropped, and
its aggregates with it: a later row begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from cepbook.engine.aggregates.accumulators import Accumulator
from cepbook.engine.cycles.stage_accumulators import make_stage_accumulator
from cepbook.engine.cycles.stage_windows import RowValues, StageDelta, StageRow, StageWindowState, make_stage_window
from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.state import CoinTosses, State
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.cycles import CycleAggregate, CycleStage


class KeyedWindow(State):
    """One window, its aggregates, and the row that shows them."""

    __slots__ = ("armed", "key", "number", "shown", "totals", "window")

    def __init__(self, number: int, key: tuple[Any, ...], window: StageWindowState, totals: list[Accumulator]) -> None:
        self.number = number
        self.key = key
        self.window = window
        self.totals = totals
        self.shown: StageRow | None = None
        self.armed = NEVER


@dataclass(frozen=True, slots=True)
class StageSpec:
    """What all states of a stage share; `fills` as in `windows.Sliding`.

    `functions` are aggregates that are registered functions, of the list of values; `failed` is told of their failures.
    """

    node: CycleStage
    fills: bool
    functions: Mapping[str, Callable[[list[Any]], Any]] = field(default_factory=dict)
    failed: Callable[[Exception], None] = print

    @property
    def aggregates(self) -> bool:
        """Whether its rows are those of aggregates."""
        return bool(self.node.aggregates)


class StageState(State):
    """The leaves of a stage, and which of them the next cycle has to look at."""

    __slots__ = ("_active", "_coins", "_heap", "_leaves", "_made", "_numbered")

    def __init__(self, seed: int | None) -> None:
        self._leaves: dict[tuple[Any, ...], KeyedWindow] = {}
        self._numbered: dict[int, KeyedWindow] = {}
        self._made = 0
        self._active: dict[int, KeyedWindow] = {}  # those that the next cycle changes whatever it brings, by number
        self._heap: list[tuple[int, int]] = []  # (when rows leave by age, number of the leaf)
        self._coins = None if seed is None else CoinTosses(seed)

    @property
    def pending(self) -> bool:
        """Whether rows wait for a further cycle."""
        return any(leaf.window.pending for leaf in self._active.values())

    @property
    def due(self) -> int:
        """When a row leaves by age."""
        while self._heap:
            due, number = self._heap[0]
            leaf = self._numbered.get(number)
            if leaf is not None and leaf.armed == due and leaf.window.due == due:
                return due
            heappop(self._heap)
            if leaf is not None and leaf.armed == due:  # the row that was the oldest has gone
                leaf.armed = NEVER
                self._arm(leaf)
        return NEVER

    @property
    def held(self) -> int:
        """How many rows there are, those that wait included."""
        return sum(len(leaf.window) + leaf.window.pending for leaf in self._leaves.values())

    def rows(self) -> Iterator[StageRow]:
        """The rows that its windows hold."""
        for leaf in self._leaves.values():
            yield from leaf.window

    @property
    def groups(self) -> int:
        """How many leaves there are."""
        return len(self._leaves)

    def step(self, now: int, incoming: Iterable[StageRow], form: StageSpec, fresh: Callable[[], int]) -> StageDelta:
        """What is new and what is dead when a cycle at `now` brings rows; `fresh` gives ids of rows that it makes."""
        brought: dict[int, tuple[KeyedWindow, list[StageRow]]] = {}
        for row in self._offered(incoming, form):
            leaf = self._leaf(row, form)
            found = brought.get(leaf.number)
            if found is None:
                brought[leaf.number] = leaf, [row]
            else:
                found[1].append(row)
        for number, leaf in self._active.items():
            brought.setdefault(number, (leaf, []))
        while self.due <= now:
            _, number = heappop(self._heap)
            leaf = self._numbered[number]
            leaf.armed = NEVER
            brought.setdefault(number, (leaf, []))
        self._active = {}
        new: list[StageRow] = []
        dead: list[StageRow] = []
        for number in sorted(brought):
            self._step(*brought[number], now, form, fresh, new, dead)
        return new, dead

    def _offered(self, incoming: Iterable[StageRow], form: StageSpec) -> Iterable[StageRow]:
        """The rows that a window may take at all."""
        spec = form.node.window
        if spec.column is not None:
            return [row for row in incoming if row[2][spec.column] is not None]
        coins = self._coins
        return incoming if coins is None else [row for row in incoming if coins.heads()]

    def _leaf(self, row: StageRow, form: StageSpec) -> KeyedWindow:
        values = row[2]
        key = tuple([canonical_nan(values[name]) for name in form.node.keys])
        found = self._leaves.get(key)
        if found is None:
            self._made += 1
            totals = [make_stage_accumulator(each.name) for each in form.node.aggregates]
            found = self._leaves[key] = KeyedWindow(
                self._made, key, make_stage_window(form.node.window, form.fills), totals
            )
            self._numbered[found.number] = found
        return found

    def _step(
        self,
        leaf: KeyedWindow,
        rows: Sequence[StageRow],
        now: int,
        form: StageSpec,
        fresh: Callable[[], int],
        new: list[StageRow],
        dead: list[StageRow],
    ) -> None:
        held = leaf.window
        entered, left = held.step(now, rows)
        kept = bool(len(held) or held.pending or form.node.pinned)
        if not form.aggregates:
            new += entered
            dead += left
        else:
            self._total(leaf, entered, left, form)
            self._show(leaf, now, kept, form, fresh, new, dead)
        if not kept:
            del self._leaves[leaf.key], self._numbered[leaf.number]
            return
        if held.pending or held.passing:
            self._active[leaf.number] = leaf
        self._arm(leaf)

    def _arm(self, leaf: KeyedWindow) -> None:
        due = leaf.window.due
        if due < leaf.armed:
            leaf.armed = due
            heappush(self._heap, (due, leaf.number))

    def _total(self, leaf: KeyedWindow, entered: list[StageRow], left: list[StageRow], form: StageSpec) -> None:
        for each, node in zip(leaf.totals, form.node.aggregates, strict=True):
            for row in left if node.retracts else ():
                each.leave(row[2][node.column])
            for row in entered:
                each.enter(row[2][node.column])

    def _value(self, own: Accumulator, node: CycleAggregate, form: StageSpec) -> Any:
        """The value of an aggregate; null where a registered function fails."""
        function = form.functions.get(node.name)
        if function is None:
            return own.value()
        try:
            return function(own.value())
        except Exception as failure:  # noqa: BLE001 - told; everything else goes on
            form.failed(failure)
            return None

    def _show(
        self,
        leaf: KeyedWindow,
        now: int,
        kept: bool,
        form: StageSpec,
        fresh: Callable[[], int],
        new: list[StageRow],
        dead: list[StageRow],
    ) -> None:
        """A row of new values takes the place of the former one; a leaf that is dropped takes its row with it."""
        before = leaf.shown
        if not kept:
            dead += [] if before is None else [before]
            return
        names = form.node.columns
        totals = [self._value(each, node, form) for each, node in zip(leaf.totals, form.node.aggregates, strict=True)]
        values: RowValues = dict(zip(names, (*leaf.key, *totals), strict=True))
        if before is not None:
            if all(_same(values[name], before[2][name]) for name in names):
                return
            dead.append(before)
        leaf.shown = fresh(), now, values
        new.append(leaf.shown)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))
