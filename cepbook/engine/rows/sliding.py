"""Code of statements over unbound streams and windows that take and drop events one by one.

An arrival enters the window and may push one event out; both act in one delivery. Events that leave by time are
collected by ``expire`` and handled together by ``leave_rows``, so one advance makes one delivery.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.emit import Emitter
from cepbook.engine.rows.expr import Scope, truth
from cepbook.engine.rows.windows import SLIDING
from cepbook.engine.rows.windows.lastevent import REMEMBER
from cepbook.engine.rows.windows.period import due_of, limit_of, timer_of


class SlidingCode:
    """Writes the functions of one statement over no window or a sliding one."""

    def __init__(self, code: Code, iterable_unbound: bool) -> None:
        self.code = code
        self.shape = code.shape
        self.source = code.source
        self.window = SLIDING.get(self.shape.window_name)
        if self.window is None and iterable_unbound and not self.shape.fully:
            self.window = REMEMBER
        self._gone = "for item in gone:", "item"  # the loop over events that leave by time
        self.p = code.arriving("now" if code.reads_now else "clock.now")
        self.q = code.retained("now")

    @property
    def fresh(self) -> str:
        """Code of an empty window."""
        return "None" if self.window is None else self.window.fresh(self.code)

    # -------------------------------------------------------------- arrival
    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """What an event does that passed the filter. With `hoisted`, one group's cells are locals already."""
        kind = {
            "unaggregated": self._unaggregated,
            "aggregated": self._aggregated,
            "fully_aggregated": self._fully_aggregated,
            "aggregated_grouped": self._aggregated_grouped,
            "fully_aggregated_grouped": self._fully_grouped,
        }[self.shape.kind]
        kind(emit, hoisted)

    def _arrive(self) -> str | None:
        """Put the event into its window; the local with the event that left, if one may have."""
        if self.window is None:
            return None
        if self.code.aggregates.needs_ordinal:
            self.code.number()
        drops = self.shape.aggregation is not None or self.shape.wants_remove
        return self.window.arrive(self.code, self._w, self.code.items.pack("now"), drops)

    def _find_window(self) -> None:
        self._w = self.code.find_window(self.fresh) if self.window is not None else "W"

    def _passes(self) -> str | None:
        """The where-clause of the arriving event in a local; None without where."""
        if self.shape.where is None:
            return None
        self.source.line(f"ok = {truth(self.p, self.shape.where)}", self.shape.where.span)
        return "ok"

    def _unaggregated(self, emit: Emitter, hoisted: bool) -> None:
        source, shape = self.source, self.shape
        self._find_window()
        if shape.lazy:
            self._sweep(None)
        old = self._arrive()
        if old is None:
            if shape.wants_insert:
                with self.code.where(self.p), self.code.having(self.p):
                    emit.row(self.p)
            return
        source.line("ins = rem = None")
        with source.block(f"if {old} is not GONE:"):
            self.code.items.unpack(source, old)
            with self.code.where(self.q), self.code.having(self.q):
                source.line(f"rem = [{self.code.row(self.q)}]")
        if shape.wants_insert:
            with self.code.where(self.p), self.code.having(self.p):
                source.line(f"ins = [{self.code.row(self.p)}]")
        emit("ins", "rem")

    def _aggregated(self, emit: Emitter, hoisted: bool) -> None:
        source, shape, cells = self.source, self.shape, self.code.aggregates
        self._find_window()
        if not hoisted:
            cells.load("A")
        if shape.lazy:
            self._sweep(lambda: cells.leave(self.q, "qo"))
        old = self._arrive()
        ok = self._passes()
        self._if(ok, lambda: cells.enter(self.p, "o"))
        if old is not None:
            if shape.wants_remove:
                source.line("rem = None")
            with source.block(f"if {old} is not GONE:"):
                self.code.items.unpack(source, old)
                with self.code.where(self.q):
                    cells.leave(self.q, "qo")
                    if shape.wants_remove:
                        with self.code.having(self.q):
                            source.line(f"rem = [{self.code.row(self.q)}]")
        if not hoisted:
            cells.store("A")
        self._deliver_event_row(emit, ok, has_remove=old is not None and shape.wants_remove)

    def _deliver_event_row(self, emit: Emitter, ok: str | None, *, has_remove: bool) -> None:
        if not has_remove:
            if self.shape.wants_insert:
                self._if(ok, lambda: self._if_having(lambda: emit.row(self.p)))
            return
        row = self.code.row(self.p)
        self.source.line("ins = None")
        if self.shape.wants_insert:
            self._if(ok, lambda: self._if_having(lambda: self.source.line(f"ins = [{row}]")))
        emit("ins", "rem")

    def _fully_aggregated(self, emit: Emitter, hoisted: bool) -> None:
        source, cells = self.source, self.code.aggregates
        self._find_window()
        if not hoisted:
            cells.load("A")
        old = self._arrive()
        ok = self._passes()
        if self.shape.wants_remove:
            source.line("rem = None")
            self._if_having(lambda: source.line(f"rem = [{self.code.row(self.p)}]"))
        self._if(ok, lambda: cells.enter(self.p, "o"))
        changed = ok
        if old is not None:
            if ok is not None:
                source.line("changed = ok")
                changed = "changed"
            with source.block(f"if {old} is not GONE:"):
                self.code.items.unpack(source, old)
                with self.code.where(self.q):
                    cells.leave(self.q, "qo")
                    if ok is not None:
                        source.line("changed = True")
        if not hoisted:
            cells.store("A")
        self._if(changed, lambda: self._deliver_group_row(emit))

    def _deliver_group_row(self, emit: Emitter) -> None:
        if not self.shape.wants_remove:
            self._if_having(lambda: emit.row(self.p))
            return
        row = self.code.row(self.p)
        self.source.line("ins = None")
        if self.shape.wants_insert:
            self._if_having(lambda: self.source.line(f"ins = [{row}]"))
        emit("ins", "rem")

    def _aggregated_grouped(self, emit: Emitter, hoisted: bool) -> None:
        source, shape, cells, code = self.source, self.shape, self.code.aggregates, self.code
        self._find_window()
        if shape.lazy:
            self._sweep(self._leave_its_group)
        old = self._arrive()
        ok = self._passes()
        has_remove = old is not None and shape.wants_remove
        if has_remove:
            source.line("rem = None")
        if old is not None and shape.same_group:
            self._same_group(ok, old, has_remove)
        else:
            self._if(ok, self._enter_its_group)
            if old is not None:
                with source.block(f"if {old} is not GONE:"):
                    code.items.unpack(source, old)
                    with code.where(self.q):
                        self._leave_its_group()
                        if shape.wants_remove:
                            with code.having(self.q):
                                source.line(f"rem = [{code.row(self.q)}]")
                        self._if(ok, lambda: cells.load("H"))
        self._deliver_event_row(emit, ok, has_remove=has_remove)

    def _enter_its_group(self) -> None:
        self.source.line(f"k = {self.code.key(self.p)}")
        self.code.open_group("k", "H")
        self.code.aggregates.enter(self.p, "o")
        self.code.aggregates.store("H")

    def _leave_its_group(self) -> None:
        self.source.line(f"k = {self.code.key(self.q)}")
        self.code.leave_group(self.q, "k")

    def _same_group(self, ok: str | None, old: str, has_remove: bool) -> None:
        """The event that leaves is of the arriving event's group: one look-up, cells stay in locals."""
        source, cells, code = self.source, self.code.aggregates, self.code
        source.line(f"k = {code.key(self.p)}")
        code.open_group("k", "H")
        self._if(ok, lambda: cells.enter(self.p, "o"))
        with source.block(f"if {old} is not GONE:"):
            code.items.unpack(source, old)
            with code.where(self.q):
                cells.leave(self.q, "qo")
                if has_remove and not self.shape.fully:
                    with code.having(self.q):
                        source.line(f"rem = [{code.row(self.q)}]")
        cells.store("H")
        if cells.size is not None and ok is not None:
            with source.block(f"if not {cells.size}:"):
                source.line("del groups[k]")

    def _fully_grouped(self, emit: Emitter, hoisted: bool) -> None:
        source, shape, code = self.source, self.shape, self.code
        self._find_window()
        old = self._arrive()
        ok = self._passes()
        if old is None:
            self._if(ok, lambda: self._one_group(emit, None))
            return
        if shape.same_group and ok is None:
            self._one_group(emit, old)
            return
        source.line("ins, rem, touched = [], [], {}")
        self._if(ok, lambda: self._touch(self.p, entering=True))
        with source.block(f"if {old} is not GONE:"):
            code.items.unpack(source, old)
            with code.where(self.q):
                self._touch(self.q, entering=False)
        self._touched_rows(self.q)
        emit("ins", "rem")

    def _one_group(self, emit: Emitter, old: str | None) -> None:
        """Only the arriving event's group changes; `old` is of the same group."""
        source, cells, code = self.source, self.code.aggregates, self.code
        source.line(f"k = {code.key(self.p)}")
        code.open_group("k", "H")
        if self.shape.wants_remove:
            source.line("rem = None")
            self._if_having(lambda: source.line(f"rem = [{code.row(self.p)}]"))
        cells.enter(self.p, "o")
        if old is not None:
            with source.block(f"if {old} is not GONE:"):
                code.items.unpack(source, old)
                cells.leave(self.q, "qo")
        cells.store("H")
        self._deliver_group_row(emit)

    def _touch(self, scope: Scope, *, entering: bool) -> None:
        """Move the scope's event into or out of its group, noting the group's former row once per delivery."""
        source, code, cells = self.source, self.code, self.code.aggregates
        source.line(f"k = {code.key(scope)}")
        if entering:
            code.open_group("k", "G")
        else:
            code.find_to_leave("k")
        with source.block("if k not in touched:"):
            source.line("touched[k] = G")
            if self.shape.wants_remove:
                cells.load("G")
                code.append_row("rem", scope)
        if entering:
            cells.load("G")
            cells.enter(scope, "o")
            cells.store("G")
        else:
            code.leave_group(scope, "k")

    def _touched_rows(self, scope: Scope) -> None:
        if not self.shape.wants_insert:
            return
        with self.source.block("for k, G in touched.items():"):
            self.code.aggregates.load("G")
            self.code.append_row("ins", scope)

    # -------------------------------------------------------------- time
    def _sweep(self, leave: Callable[[], None] | None) -> None:
        """Drop, unseen, what has left a lazily expired time window."""
        source, w = self.source, self._w
        source.line(f"limit = {limit_of(self.code, 'now')}")
        with source.block(f"while {w} and {self.code.items.timestamp(f'{w}[0]')} <= limit:"):
            if leave is None:
                source.line(f"{w}.popleft()")
            else:
                self.code.items.unpack(source, f"{w}.popleft()")
                with self.code.where(self.q):
                    leave()

    def timers(self) -> None:
        """``expire`` and ``leave_rows``: events that leave by time."""
        source = self.source
        stamp = self.code.items.timestamp("w[0]")
        with source.block("def expire(S, w, now, gone, ordinal):"):
            source.line(f"limit = {limit_of(self.code, 'now')}")
            with source.block(f"while w and {stamp} <= limit:"):
                source.line("gone.append(w.popleft())")
            with source.block("if w and ordinal is not None:"):
                source.line(f"arm({timer_of(self.code, stamp)}, S, w, ordinal)")
        self.code.write_dues(timer_of(self.code, stamp), "w")
        with source.block("def leave_rows(S, gone, now, ins, rem):"):
            self.code.load_state()
            self._leave_rows()

    def run_expiry(self, emit: Emitter) -> None:
        """``run_expiry(S, W, now, ticks, push)``: within `run`, expire up to `now`; returns the next due time.

        One delivery per tick: the clock stops at the ticks, not at the due times between them.
        """
        source, stamp = self.source, self.code.items.timestamp("W[0]")
        source.bind("_bisect_left", bisect_left)
        with source.block("def run_expiry(S, W, upto, ticks, push):"):
            self.code.load_groups()
            with source.block("while W:"):
                source.line(f"due = {due_of(self.code, stamp)}")
                with source.block("if due > upto:"):
                    source.line("return due")
                source.line("now = upto if ticks is None else ticks[_bisect_left(ticks, due)]")
                source.line(f"limit = {limit_of(self.code, 'now')}")
                source.line("ins, rem = [], []")
                rows_at_once = self.shape.fully or (self.shape.kind == "unaggregated" and self.shape.wants_remove)
                if not rows_at_once:  # rows come after all have left, if at all
                    source.line("gone = []")
                    with source.block(f"while W and {stamp} <= limit:"):
                        source.line("gone.append(W.popleft())")
                else:
                    self._gone = f"while W and {stamp} <= limit:", "W.popleft()"
                with self.code.reported(f"while W and {stamp} <= limit: W.popleft()"):
                    self._leave_rows()
                    self._gone = "for item in gone:", "item"
                    emit("ins", "rem")
            source.line(f"return {NEVER}")

    def _each_gone(self, body: Callable[[], None]) -> None:
        loop, item = self._gone
        with self.source.block(loop):
            self.code.items.unpack(self.source, item)
            with self.code.where(self.q):
                body()

    def _leave_rows(self) -> None:
        source, shape, code, cells = self.source, self.shape, self.code, self.code.aggregates
        if shape.kind == "unaggregated":
            if shape.wants_remove:
                self._each_gone(lambda: code.append_row("rem", self.q))
        elif shape.kind == "fully_aggregated_grouped":
            source.line("touched = {}")
            self._each_gone(lambda: self._touch(self.q, entering=False))
            self._touched_rows(self.q)
        elif shape.kind == "aggregated_grouped":
            source.line("touched = {}")
            self._each_gone(self._leave_and_note_group)
            if shape.wants_remove:
                self._each_gone(self._gone_group_row)
        else:
            cells.load("A")
            if shape.kind == "fully_aggregated":
                self._leave_all_of_one_group()
            else:
                self._each_gone(lambda: cells.leave(self.q, "qo"))
                cells.store("A")
                if shape.wants_remove:
                    self._each_gone(lambda: code.append_row("rem", self.q))

    def _leave_and_note_group(self) -> None:
        self._leave_its_group()
        self.source.line("touched[k] = G")

    def _leave_and_note(self) -> None:
        self.code.aggregates.leave(self.q, "qo")
        self.source.line("changed = True")

    def _gone_group_row(self) -> None:
        self.source.line(f"k = {self.code.key(self.q)}")
        self.code.aggregates.load("touched[k]")
        self.code.append_row("rem", self.q)

    def _leave_all_of_one_group(self) -> None:
        source, shape, code, cells = self.source, self.shape, self.code, self.code.aggregates
        source.line("before, changed = [], False")
        if shape.wants_remove:
            code.append_row("before", self.q)
        self._each_gone(self._leave_and_note)
        cells.store("A")
        with source.block("if changed:"):
            source.line("rem += before")
            if shape.wants_insert:
                code.append_row("ins", self.q)

    # -------------------------------------------------------------- reading
    def settle(self) -> None:
        """Body of ``settle(S, now)``: drop what has left a lazily expired window."""
        if not self.shape.lazy:
            return
        windows = "S[1].values()" if self.shape.group_window else "(S[1],)"
        with self.source.block(f"for w in {windows}:"):
            self.source.line("gone = []")
            self.source.line("expire(S, w, now, gone, None)")
            with self.source.block("if gone:"):
                self.source.line("leave_rows(S, gone, now, [], [])")

    def contents(self) -> str | None:
        """Code of an iterable of all retained items, None if nothing is retained."""
        if self.window is None:
            return None
        if self.shape.group_window:
            return f"(item for w in W.values() for item in {self.window.contents('w')})"
        return self.window.contents("W")

    # -------------------------------------------------------------- small things
    def _if(self, condition: str | None, body: Callable[[], None]) -> None:
        if condition is None:
            body()
            return
        with self.source.block(f"if {condition}:"):
            body()

    def _if_having(self, body: Callable[[], None]) -> None:
        with self.code.having(self.p):
            body()
