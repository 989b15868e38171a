"""Code of statements over views, for any combination of windows.

An arrival or a timer causes a delta. It goes through where, aggregation, having and projection. If the arriving event
enters alone, this code is part of the arrival; for batches and timers it is the function ``process(S, batch, former,
now, ins, rem, forced)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from typing import Any

from cepbook.engine.codegen.delta import EVICTED_BLOCK, DeltaCodegen
from cepbook.engine.codegen.emit import Emitter, RecordEmitter
from cepbook.engine.codegen.tree_join import join_codegen
from cepbook.engine.codegen.views import ViewCodegen
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.code_scope import RowCode
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.operators import Eviction
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.timers import WINDOW
from cepbook.engine.windows.window_codegen import EmittedChange
from cepbook.engine.windows.window_view import Item, WindowView
from cepbook.lang.plan import expressions as x


class RowOrigin(Enum):
    """The place of a row's event: arriving, retained or leaving."""

    ARRIVING = auto()
    RETAINED = auto()
    LEAVING = auto()


class StatementCodegen(DeltaCodegen):
    """Writes the functions of one statement, which ask views for the delta of an arrival or a timer. A window may
    provide a *fragment*: source of its arrivals that becomes part of the statement's code and works on the fields of
    the view. Without one the view's ``arrive`` is called.
    """

    def __init__(self, code: CodegenContext, iterable_unbound: bool) -> None:
        self.code = code
        self.steps = code.steps
        self.source = code.source
        self.joins = join_codegen(code) if code.steps.inputs and code.steps.on_select is None else None
        self.pipeline: ViewCodegen = self.joins or ViewCodegen(code, iterable_unbound)
        self._view = self.pipeline.view()
        self._previous: dict[x.BoundExpr, str] = {}
        self.p = code.arriving(self._now).at(row=self._row_code(RowOrigin.ARRIVING))
        self.q = code.retained("now").at(row=self._row_code(RowOrigin.RETAINED))
        self.gone = code.retained("now").at(row=self._row_code(RowOrigin.LEAVING), checks=False)

    @property
    def _now(self) -> str:
        return "now" if self.reads_now else "clock.now"

    @property
    def fresh(self) -> str:
        return self._view

    @property
    def reads_now(self) -> bool:
        """True if arrivals need engine time in the local ``now``."""
        return self.pipeline.reads_now or self.code.reads_now

    def _row_code(self, origin: RowOrigin) -> RowCode:
        arriving, leaves = origin is RowOrigin.ARRIVING, origin is RowOrigin.LEAVING
        prior = partial(self.pipeline.prior, arriving=arriving)
        prev = (lambda e: "None") if leaves else partial(self._prev, arriving=arriving)
        return RowCode(prev, prior, lambda e: str(not leaves), self._grouping)

    def _grouping(self, e: x.Grouping) -> str:
        levels = self.steps.levels
        bits = [sum((key not in level) << place for place, key in enumerate(reversed(e.keys))) for level in levels]
        return f"{self.source.const(tuple(bits))}[k[0]]" if levels else "0"

    def _prev(self, e: x.Prev, *, arriving: bool) -> str:
        index = e.constant_index
        if arriving and self.joins is None and self.pipeline.queued and index is not None:
            return self._prev_in_queue(e, index)
        at = "W, item" if self.joins is None else self.joins.previous(e)
        if e.kind == "count":
            return f"{self.source.bind('_prev_count', prev_count)}({at})"
        assert e.value is not None
        value = self._value_of_another(e.value)
        if e.kind == "window":
            return f"{self.source.bind('_prev_window', prev_window)}({at}, {value})"
        find = prev_tail if e.kind == "tail" else prev_value
        place = "1" if e.index is None else lower.value(self.p if arriving else self.q, e.index)
        return f"{self.source.bind(f'_{find.__name__}', find)}({at}, {place}, {value})"

    def _prev_in_queue(self, e: x.Prev, index: int) -> str:
        """Return the code of ``prev`` with a constant index for the event at the end of the local ``queue``."""
        assert e.value is not None
        item = f"queue[{index if e.kind == 'tail' else -1 - index}]"
        places = {f"q{component}": place for place, component in enumerate(self.code.items.parts)}
        place = places.get(lower.value(self.code.retained(), e.value))
        value = f"{self._value_of_another(e.value)}({item})" if place is None else f"{item}[{place}]"
        return f"({value} if len(queue) > {index} else None)"

    def _value_of_another(self, e: x.BoundExpr) -> str:
        if e not in self._previous:
            name = self._previous[e] = f"previous{len(self._previous)}"
            code, own = (self.code, e) if self.joins is None else self.joins.of_input(e)

            def write() -> None:
                with self.source.block(f"def {name}(item):"):
                    code.items.unpack(self.source, "item")
                    self.source.line(f"return {lower.value(code.retained(), own)}", e.span)

            self.code.helpers.append(write)
        return self._previous[e]

    @property
    def passes(self) -> bool:
        """True if nothing of an arrival is retained."""
        return self.pipeline.passes and self.steps.aggregation is None

    @property
    def plain(self) -> bool:
        """True if, in `run`, each arrival that passes the filter delivers exactly one insert row, and nothing else
        delivers.
        """
        return self.inserts_alone and self.steps.having is None and self.steps.context is None

    @property
    def _delivers_alike(self) -> bool:
        """True if rows that enter are delivered at once, in the insert stream alone, all of them and in their order."""
        steps = self.steps
        if steps.output is not None or steps.lookup is not None:
            return False
        return steps.delivered_selector == "istream" and not self.code.arranged

    @property
    def inserts_alone(self) -> bool:
        """True if, in `run`, each arrival that passes the filter and the having clause delivers exactly one insert row,
        and nothing else delivers.
        """
        steps, code = self.steps, self.code
        if not lower.is_columnar(steps.source.filter):
            return False
        if steps.row is None or not self._delivers_alike or steps.projection.wildcard or code.risky:
            return False
        if steps.where is not None:
            return False
        one_group = not (code.local or steps.levels or steps.may_leave_unentered) and (
            steps.evicts_own_group or steps.eviction is Eviction.NONE
        )
        if steps.kind == "fully_aggregated_grouped" and not one_group:
            return False
        seen = steps.ticks and not steps.lazy
        return steps.enters_alone and self.pipeline.objection is None and not seen

    @property
    def delivers_events(self) -> bool:
        """True if each arrival that passes the filter, the where and the having clause delivers exactly one insert row,
        nothing else delivers, and nothing is retained.
        """
        steps = self.steps
        if steps.row is None or steps.kind != "unaggregated" or steps.context is not None or not self._delivers_alike:
            return False
        return steps.enters_alone and self.passes and self.pipeline.objection is None and not steps.projection.wildcard

    @property
    def match_columns(self) -> tuple[str, ...] | None:
        """The measures in the row that each match of `match_recognize` delivers; None if a match may deliver no row, or
        something else.
        """
        steps = self.steps
        recognize, projection = steps.recognize, steps.projection
        if recognize is None or steps.kind != "unaggregated" or not self._delivers_alike:
            return None
        if steps.where is not None or steps.having is not None or steps.subqueries or steps.context is not None:
            return None
        measures = tuple(column.name for column in recognize.measures)
        if projection.wildcard:
            return None if projection.columns else measures
        names = tuple(column.value.property_name for column in projection.columns)
        return names if set(names) <= set(measures) else None

    @property
    def arrivals(self) -> str:
        """How arrivals are written and why, for people."""
        reason = self.pipeline.objection
        return "arrivals are written into the statement" if reason is None else f"arrivals call the view: {reason}"

    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        source = self.source
        self.code.number()
        self.loaded = hoisted
        if self.steps.lazy and self.steps.kind == "aggregated" and not hoisted:
            self.code.aggregates.load("A")
            self.loaded = True
        if self.steps.aggregate_only:
            posted = self._arrive_along()
        else:
            posted = self.pipeline.arrive(self._sweep)
        if posted is None:
            return
        if posted.alone:
            self.arrival_delta(posted.left, emit, hoisted=hoisted)
            return
        with source.block("if change is not None:"):
            if self.steps.enters_alone:
                self.arrival_delta(EVICTED_BLOCK, emit, hoisted=hoisted)
            elif self.joins_rows:
                self._joined_rows(emit)
            else:
                self._process_change()
                emit("ins", "rem")

    @property
    def joins_rows(self) -> bool:
        """True if each combination that enters is a row, and nothing else is."""
        steps = self.steps
        if self.joins is None or steps.output is not None:
            return False
        return steps.kind == "unaggregated" and not steps.makes_remove_rows

    @property
    def delivers_pairs(self) -> bool:
        """True if each combination of a join is delivered at once as one insert row, which cannot fail."""
        steps, joins = self.steps, self.joins
        if joins is None or not self.joins_rows or steps.delivered_selector == "rstream" or joins.join.may_fail:
            return False
        columns = [column.value for column in steps.projection.columns]
        tested = [e for e in (steps.where, steps.having, *joins.join.conditions) if e is not None]
        plain = not (self.code.arranged or steps.projection.wildcard or x.find(x.Prev, *columns, *tested))
        return plain and not any(map(lower.may_fail, (*columns, *tested)))

    def _joined_rows(self, emit: Emitter) -> None:
        source, code = self.source, self.code
        with source.block("if len(change[0]) == 1:"):
            source.line("item = change[0][0]")
            code.items.unpack(source, "item")
            with code.where(self.q), code.having(self.q):
                emit.row(self.q)
        with source.block("else:"):
            self._process_change()
            emit("ins", "rem")

    def _process_change(self) -> None:
        source = self.source
        source.line("batch, former = change")
        source.line("ins, rem, forced = [], [], not batch and not former")
        source.line("process(S, batch, former, now, ins, rem, forced)")

    def _arrive_along(self) -> EmittedChange | None:
        """Add the event to the groups of a batch that keeps no events."""
        source, code, cells, steps = self.source, self.code, self.code.aggregates, self.steps
        with code.where(self.p):
            source.line("pending = W.items")
            key = "None"
            if steps.grouped:
                key = code.key(self.p)
                if not key.isidentifier():
                    source.line(f"k = {key}")
                    key = "k"
            starts = self._start_clock if self.steps.clock_starts_with_group else None
            code.find_or_make("H", "pending", key, cells.fresh(), starts)
            cells.load("H")
            cells.enter(self.p)
            cells.store("H")
        return None if self.steps.clock_starts_with_group else self.pipeline.arrive_along()

    def _start_clock(self) -> None:
        if not self.code.in_column_loop:
            self.source.line("now = clock.now")
        self.pipeline.arrive_along()

    def ahead(self) -> None:
        """Write the locals of the view that the loop over a batch uses."""
        if not self.steps.aggregate_only:
            self.pipeline.ahead()

    def end_prefetch(self) -> None:
        self.pipeline.prefetched = False

    def _sweep(self, head: str, item: str, then: str) -> None:
        with self.source.block(head):
            if self.steps.aggregation is None:
                self.source.line(item)
            else:
                self.code.items.unpack(self.source, item)
            if then:
                self.source.line(then)
            if self.steps.aggregation is None:
                return
            with self.code.where(self.gone):
                if self.steps.grouped:
                    self.source.line(f"k = {self.code.key(self.gone)}")
                    self.code.leave_group(self.gone)
                    if self.collects_groups:
                        self.source.line("touched[k] = None")
                else:
                    self.code.leave(self.gone)

    def start(self) -> None:
        """Arm the timer of a view that must be advanced before any event."""
        if self.steps.ticks:
            self.source.line("W = S.view")
            self.pipeline.arm()

    def timers(self) -> None:
        """Write ``process``, and what advances views: ``run_expiry`` for a single view, or ``tick``."""
        source = self.source
        if self.steps.ticks or not self.steps.enters_alone:
            with source.block("def process(S, batch, former, now, ins, rem, forced):"):
                self.announce()
                if self.steps.reads_prev:
                    source.line("W = S.view")
                self.code.load_groups()
                if self.steps.aggregate_only:
                    self.swapped()
                else:
                    self.change()
        if not self.steps.ticks:
            return
        with source.block("def dues(S):"):
            source.line(f"return [({WINDOW}, S.view.due)]")
        if self.code.has_single_view:
            return
        source.bind("_NEVER", NEVER)
        with source.block("def tick(S, W, now, ins, rem, ordinal):"):
            source.line("W.armed, forced, made = _NEVER, False, (len(ins), len(rem))")
            with source.block("if W.due <= now:"), self.code.reported("del ins[made[0] :], rem[made[1] :]"):
                source.line("change = W.advance(now)")
                with source.block("if change is not None:"):
                    source.line("batch, former = change")
                    source.line("forced = not batch and not former")
                    source.line("process(S, batch, former, now, ins, rem, forced)")
            self.pipeline.arm()
            source.line("return forced")

    def swapped(self) -> None:
        """Write the delta of a batch without events: ``batch`` and ``former`` are groups
        (`windows.aggregate_only_batch`).
        """
        source, steps, cells = self.code.source, self.code.steps, self.code.aggregates
        if steps.grouped:
            self._swapped_groups()
            return
        source.line("before = []")
        if steps.makes_remove_rows:
            cells.load("A")
            self.append_row("before", self.q)
        source.line(f"A[:] = batch[None] if batch else {cells.fresh()}")
        cells.load("A")
        with source.block("if batch or former or forced:"):
            if steps.makes_remove_rows:
                source.line("rem += before")
            if steps.makes_insert_rows:
                self.append_row("ins", self.q)

    def _swapped_groups(self) -> None:
        source, code, steps = self.code.source, self.code, self.code.steps
        source.line("former_groups, groups = groups, batch or {}")
        source.line("S.groups = groups")
        source.line("gone = [k for k in former_groups if k not in groups]")
        if steps.makes_remove_rows:
            with source.block("for k in (*groups, *gone):"):
                code.load_group_or_fresh("former_groups")
                code.append_row("rem", self.q)
        if steps.makes_insert_rows:
            with source.block("for k, G in groups.items():"):
                code.aggregates.load("G")
                code.append_row("ins", self.q)
            with source.block("for k in gone:"):
                code.aggregates.load(code.aggregates.fresh())
                code.append_row("ins", self.q)

    def announce(self) -> None:
        """Write who else receives a delta; here nobody."""

    def consume(self, emit: Emitter) -> None:
        """Write what the local ``change``, of a named window or table, does."""
        self._process_change()
        emit("ins", "rem")

    def run_expiry(self, emit: Emitter) -> None:
        """Write ``run_expiry(S, W, upto, fire, push)``: advance the single view; return its next due time. Once, at
        `upto`; within `run` at the stops of the clock, which `fire` returns.
        """
        with self.source.block("def run_expiry(S, W, upto, fire, push):"), self._whenever_due(once=True):
            self._process_change()
            emit("ins", "rem")

    def expire(self, emit: RecordEmitter) -> None:
        """Write ``expire(S, W, upto, fire, out, mark_of)``: `run_expiry` within `run`, with rows as records."""
        source = self.source
        with source.block("def expire(S, W, upto, fire, out, mark_of):"):
            self.code.load_groups()
            source.line("mark = 0")
            with self._whenever_due(once=False):
                with source.block("if mark_of is not None:"):
                    source.line("mark = mark_of(now)")
                source.line("batch, former = change")
                self._no_rows()
                self.timer_delta(emit)
                emit("ins", "rem")

    def _no_rows(self) -> None:
        steps = self.code.steps
        for side, needed in (("ins", steps.makes_insert_rows), ("rem", steps.makes_remove_rows)):
            if needed:
                self.code.source.line(f"{side} = []")

    def expire_all(self, emit: RecordEmitter) -> None:
        """Write ``expire_all(states, now, out, mark_of)``: `expire` of several states at one time, for one delivery."""
        source, steps = self.source, self.steps
        sides = ["ins"] * steps.makes_insert_rows + ["rem"] * steps.makes_remove_rows
        source.bind("_NEVER", NEVER)
        with source.block("def expire_all(states, now, out, mark_of):"):
            self._no_rows()
            with source.block("for S in states:"):
                source.line("W = S.view")
                source.line("W.armed = _NEVER")
                with source.block("if W.due > now:"):
                    source.line("continue")
                source.line("".join(f"{side}_made = len({side}); " for side in sides).rstrip("; "))
                with self.code.reported(*(f"del {side}[{side}_made:]" for side in sides)):
                    self.code.load_groups()
                    source.line("change = W.advance(now)")
                    with source.block("if change is not None:"):
                        source.line("batch, former = change")
                        self.timer_delta(emit)
            source.line("mark = 0 if mark_of is None else mark_of(now)")
            emit("ins", "rem")

    @contextmanager
    def _whenever_due(self, *, once: bool) -> Iterator[None]:
        """Write the advance of the single view up to `upto`; its delta is the local ``change``. If `fire` is None and
        with `once` the view is advanced once.
        """
        source = self.source
        source.bind("_NEVER", NEVER)
        source.line("W.armed, now = _NEVER, upto")
        with source.block("while W.due <= upto:"):
            if once:
                with source.block("if fire is not None:"):
                    source.line("now = fire(W.due)")
            else:
                source.line("now = fire(W.due)")
            source.line("change = W.advance(now)")
            with source.block("if change is not None:"), self.code.reported():
                yield
            if once:
                with source.block("if fire is None:"):
                    source.line("break")
        source.line("W.armed = W.due")
        source.line("return W.due")

    def post(self, emit: Emitter) -> None:
        """Write ``post(S)``: deliver the delta of the matches of one event."""
        if not self.steps.sorts_matches:
            return
        source = self.source
        with source.function("post", ["S"], []):
            source.line("W, now = S.view, clock.now")
            source.line("change = W.post()")
            with source.block("if change is not None:"):
                self._process_change()
                emit("ins", "rem")

    def reevaluate(self) -> None:
        """Write ``reevaluate(S, now)``: a variable of a window's condition was assigned."""
        if not self.steps.watched:
            return
        with self.source.block("def reevaluate(S, now):"):
            self.source.line("W = S.view")
            self.source.line("W.reevaluate(now)")
            self.pipeline.arm()

    def helpers(self) -> None:
        """Write the functions that other functions turned out to need."""
        written = 0
        while written < len(self.code.helpers):
            self.code.helpers[written]()
            written += 1

    def settle(self) -> None:
        """Write the body of ``settle(S, now)``: evict expired events of a lazy window."""
        if self.steps.lazy:
            self.sweep("sweep(now)")

    def sweep(self, call: str) -> None:
        """Write that a lazy window drops what has expired, by the `call` of a method."""
        self.source.line(f"change = S.view.{call}")
        with self.source.block("if change is not None:"):
            self.source.line("process(S, (), change[1], now, [], [], False)")

    def contents(self) -> str:
        """Return the code of the retained items, as iterators show them."""
        if self.steps.recognize is not None:
            return f"W.over({'taken(S, stored(S), now)' if self.steps.reads_store else 'W.held()'}, now)"
        plain = self.steps.reads_store and not self.steps.views_store
        return "taken(S, stored(S), now)" if plain else "W.display_order()"


ItemValue = Callable[[Item], Any]


def prev_value(view: WindowView, item: Item, index: int | None, value: ItemValue) -> Any:
    """Return `value` of the event `index` places before the newest (in a batch: before `item`), or None."""
    if index is None or index < 0:
        return None
    previous = view.prev_item(item, index)
    return None if previous is None else value(previous)


def prev_tail(view: WindowView, item: Item, index: int | None, value: ItemValue) -> Any:
    """Return `value` of the event `index` places from the end of the window; None beyond it."""
    before = None if index is None or index < 0 else view.prev_items(item)
    if before is None or index is None:
        return None
    items, _ = before
    return value(items[len(items) - 1 - index]) if index < len(items) else None


def prev_window(view: WindowView, item: Item, value: ItemValue) -> list[Any] | None:
    """Return `value` of all events of the window; None in an unfinished batch."""
    before = view.prev_items(item)
    return None if before is None else [value(retained) for retained in before[0]]


def prev_count(view: WindowView, item: Item) -> int | None:
    """Return the number of events of the window; None in an unfinished batch."""
    before = view.prev_items(item)
    return None if before is None else len(before[0])
