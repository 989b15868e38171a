"""A stage: rows divided by keys, one window per key, maybe with aggregates.

Windows are ordered by creation. A window that is empty, has no waiting rows and is not pinned is dropped with its
aggregates; a later row starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.aggregates.accumulators import Accumulator
from cepbook.engine.cycles.stage_accumulators import STAGE_ACCUMULATORS, CollectedValues
from cepbook.engine.cycles.stage_windows import RowValues, StageDelta, StageRow, StageWindowState, make_stage_window
from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.state import CoinTosses, State, created, initial
from cepbook.engine.time.timers import NEVER, DueQueue
from cepbook.lang.plan.cycles import CycleAggregate, CycleStage

RowIds = Callable[[], int]  # returns the id of a new row


class KeyedWindow(State):
    """The window of one key, its aggregates, and the row with their values."""

    number: int
    key: tuple[Any, ...]
    window: StageWindowState
    totals: list[Accumulator]
    row: StageRow | None = initial(None)


@dataclass(frozen=True, slots=True)
class StageSpec:
    """The properties that all states of a stage share; `fills` as in `SlidingWindow`. `functions` are registered
    functions of the values of a window; `failed` reports their failures.
    """

    node: CycleStage
    fills: bool
    functions: Mapping[str, Callable[[list[Any]], Any]] = field(default_factory=dict)
    failed: Callable[[Exception], None] = print

    @property
    def aggregates(self) -> bool:
        return bool(self.node.aggregates)


class StageState(State):
    """The windows of a stage, and those that the next cycle must visit."""

    _coins: CoinTosses | None
    _leaves: dict[tuple[Any, ...], KeyedWindow] = created(dict)
    _numbered: dict[int, KeyedWindow] = created(dict)
    _made: int = initial(0)
    _active: dict[int, KeyedWindow] = created(dict)  # windows that the next cycle changes in any case
    _timers: DueQueue[int] = created(DueQueue)  # when rows leave by age, by number of the window

    @property
    def pending(self) -> bool:
        """True if rows wait for a further cycle."""
        return any(leaf.window.pending for leaf in self._active.values())

    @property
    def due(self) -> int:
        """The next time at which a row leaves by age."""
        return self._timers.due

    @property
    def size(self) -> int:
        """The number of rows, including waiting ones."""
        return sum(len(leaf.window) + leaf.window.pending for leaf in self._leaves.values())

    def rows(self) -> Iterator[StageRow]:
        for leaf in self._leaves.values():
            yield from leaf.window

    @property
    def groups(self) -> int:
        return len(self._leaves)

    def step(self, now: int, incoming: Iterable[StageRow], form: StageSpec, fresh: RowIds) -> StageDelta:
        """Apply the rows of a cycle at `now`; return the new and the dead rows. `fresh` returns ids of new rows."""
        brought: dict[int, tuple[KeyedWindow, list[StageRow]]] = {}
        for row in self._offered(incoming, form):
            leaf = self._leaf(row, form)
            entry = brought.get(leaf.number)
            if entry is None:
                brought[leaf.number] = leaf, [row]
            else:
                entry[1].append(row)
        for number, leaf in self._active.items():
            brought.setdefault(number, (leaf, []))
        for _, number in self._timers.take(now):
            brought.setdefault(number, (self._numbered[number], []))
        self._active = {}
        delta: StageDelta = [], []
        for number in sorted(brought):
            self._step(*brought[number], now, form, fresh, delta)
        return delta

    def _offered(self, incoming: Iterable[StageRow], form: StageSpec) -> Iterable[StageRow]:
        spec = form.node.window
        if spec.column is not None:
            return [row for row in incoming if row[2][spec.column] is not None]
        coins = self._coins
        return incoming if coins is None else [row for row in incoming if coins.heads()]

    def _leaf(self, row: StageRow, form: StageSpec) -> KeyedWindow:
        values = row[2]
        key = tuple([canonical_nan(values[name]) for name in form.node.keys])
        leaf = self._leaves.get(key)
        if leaf is None:
            self._made += 1
            totals = [STAGE_ACCUMULATORS.get(a.name, CollectedValues)() for a in form.node.aggregates]
            window = make_stage_window(form.node.window, form.fills)
            leaf = self._leaves[key] = KeyedWindow(self._made, key, window, totals)
            self._numbered[leaf.number] = leaf
        return leaf

    def _step(
        self, leaf: KeyedWindow, rows: list[StageRow], now: int, form: StageSpec, fresh: RowIds, delta: StageDelta
    ) -> None:
        window = leaf.window
        entered, left = window.step(now, rows)
        stays = bool(len(window) or window.pending or form.node.pinned)
        if not form.aggregates:
            delta[0].extend(entered)
            delta[1].extend(left)
        else:
            self._total(leaf, entered, left, form)
            self._show(leaf, now, stays, form, fresh, delta)
        if not stays:
            del self._leaves[leaf.key], self._numbered[leaf.number]
        elif window.pending or window.passing:
            self._active[leaf.number] = leaf
        self._timers.arm(leaf.number, window.due if stays else NEVER)

    def _total(self, leaf: KeyedWindow, entered: list[StageRow], left: list[StageRow], form: StageSpec) -> None:
        for accumulator, node in zip(leaf.totals, form.node.aggregates, strict=True):
            for row in left if node.retracts else ():
                accumulator.leave(row[2][node.column])
            for row in entered:
                accumulator.enter(row[2][node.column])

    def _value(self, own: Accumulator, node: CycleAggregate, form: StageSpec) -> Any:
        """Return the value of an aggregate; null if a registered function fails."""
        function = form.functions.get(node.name)
        if function is None:
            return own.value()
        try:
            return function(own.value())
        except Exception as failure:  # noqa: BLE001 - reported; everything else goes on
            form.failed(failure)
            return None

    def _show(
        self, leaf: KeyedWindow, now: int, stays: bool, form: StageSpec, fresh: RowIds, delta: StageDelta
    ) -> None:
        new, dead = delta
        before = leaf.row
        if not stays:
            dead += [] if before is None else [before]
            return
        names = form.node.columns
        aggregates = zip(leaf.totals, form.node.aggregates, strict=True)
        totals = [self._value(accumulator, node, form) for accumulator, node in aggregates]
        values: RowValues = dict(zip(names, (*leaf.key, *totals), strict=True))
        if before is not None:
            if all(_same(values[name], before[2][name]) for name in names):
                return
            dead.append(before)
        leaf.row = fresh(), now, values
        new.append(leaf.row)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))
