"""Code that takes a delta through a statement: the items that entered and those that left, in one delivery.

The same code serves an arriving event that enters alone (`DeltaCodegen.alone`: it reads the event's own locals and
needs no loop) and any other delta, whose entered and left items are in the locals ``batch`` and ``former``.

The order is the same in each kind of statement. Former rows are made first, where they are needed. Then all cells are
updated. Rows of entered items follow. A failure on the way is kept in ``broken`` and raised once all cells are updated,
so a failing expression never leaves a group half updated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from cepbook.engine.codegen.emit import Emitter, RecordEmitter
from cepbook.engine.expressions.to_python import CodeScope, may_fail, truth, value
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.operators import Eviction

WriteBody = Callable[[CodeScope], None]
EVICTED_BLOCK = "for item in change[1]:", "item"  # left items in the answer of a view


class DeltaCodegen:
    """Writes what a delta does to rows and groups.

    `p` is the scope of the arriving event, `q` that of an entered item, `gone` that of a left one. With `alone` the
    arriving event is all that entered, `leaves` is the block of items that leave with it (see `EmittedChange`), and
    `hoisted` means that the cells of the only group stay locals afterwards. `direct` delivers the only insert row where
    it is made, `flat` collects rows as records. `passed`: the local ``ok`` says whether the arriving event passed the
    where clause. `loaded`: the cells of the only group are locals already. With `collects_groups` a change makes no
    rows: it puts the keys of groups into ``touched``, which is a local.
    """

    code: CodegenContext
    p: CodeScope
    q: CodeScope
    gone: CodeScope
    alone = False
    leaves: tuple[str, str] | None = None
    hoisted = False
    direct: Emitter | None = None
    flat: RecordEmitter | None = None
    passed = False
    loaded = False
    collects_groups = False

    def entered(self, body: WriteBody) -> None:
        """Write `body` for entered items that pass the where clause."""
        if self.alone:
            with self._passes():
                body(self.p)
            return
        with self.code.source.block("for item in batch:"):
            self.code.items.unpack(self.code.source, "item")
            with self._where("batch", self.q):
                body(self.q)

    def left(self, body: WriteBody) -> None:
        """Write `body` for left items that pass the where clause."""
        steps, source = self.code.steps, self.code.source
        if steps.eviction is Eviction.NONE and not steps.resets_aggregates and self.leaves is None:
            return  # aggregates have no code for it either
        head, item = self.leaves or ("for item in former:", "item")
        if self.alone and self.leaves is None:
            return
        with source.block(head):
            self.code.items.unpack(source, item)
            with self._where("former", self.gone):
                body(self.gone)

    def _passes(self) -> AbstractContextManager[None]:
        if self.code.steps.where is None and not self.code.risky_keys:
            return nullcontext()
        return self.code.source.block("if ok:") if self.passed else self.code.where(self.p)

    def _note_passing(self) -> None:
        """Evaluate the where clause of the arriving event into ``ok``. Local groups of a join that resets its
        aggregates are cleared, too.
        """
        source, where = self.code.source, self.code.steps.where
        for group in self.code.local if self._afresh else ():
            source.line(f"{group.table}.clear()")
        if not self.alone or (where is None and not self.code.risky_keys):
            return
        self.passed = True
        if not self._may_fail_to_enter:
            self._test(self.p)
            return
        with source.block("try:"):
            self._test(self.p)
        with source.block("except Exception as failure:"):
            source.line("broken, ok = failure, False")

    @property
    def _may_fail_to_enter(self) -> bool:
        return bool(self.code.risky_keys) or (self.code.breaks and may_fail(self.code.steps.where))

    def _test(self, scope: CodeScope, name: str = "ok") -> None:
        source, where, keys = self.code.source, self.code.steps.where, self.code.risky_keys
        source.line(f"{name} = {'True' if where is None else truth(scope, where)}", where.span if where else None)
        if self.code.notes_taken and name == "ok":
            source.line("taken = ok")
        with source.block(f"if {name}:") if keys else nullcontext():
            for key in keys:
                source.line(value(scope, key), key.span)

    def _where(self, items: str, scope: CodeScope) -> AbstractContextManager[None]:
        """Write the where clause. If it or a group key fails, the item does not enter; the failure is not reported
        again when it leaves.
        """
        source = self.code.source
        if not self._may_fail_to_enter or not (self.code.risky or items == "batch"):
            return self.code.where(scope)
        with source.block("try:"):
            self._test(scope, "held")  # not ``ok``, which is of the event that arrives
        with source.block("except Exception as failure:"):
            source.line("held = False" if items == "former" else "broken, held = failure, False")
        return source.block("if held:")

    def _enter(self, scope: CodeScope) -> None:
        self.code.enter(scope, "o" if scope is self.p else "qo")

    def _leave(self, scope: CodeScope) -> None:
        self.code.leave(scope)

    def former_row(self, rows: str) -> None:
        """Append the row before the delta. Its failure must not keep the delta from taking effect."""
        if not self.code.steps.former_rows_may_fail:
            self.append_row(rows, self.gone)
            return
        with self.code.source.block("try:"):
            self.append_row(rows, self.gone)
        with self.code.source.block("except Exception as failure:"):
            self.code.source.line("broken = failure")

    def append_row(self, rows: str, scope: CodeScope) -> None:
        """Write ``rows.append(row)`` under having; an only insert row may be delivered at once."""
        source, span = self.code.source, self.code.steps.projection.span
        self.code.load_local(scope)
        with self.code.having(scope):
            if rows == "ins" and self.direct is not None:
                self.direct.row(scope)
                return
            one = (rows == "ins" and self.one_insert_row) or (rows == "rem" and self.one_remove_row)
            if self.flat is not None:
                self.flat.append(rows, scope, one=one)
                return
            row = self.code.row(scope)
            if one:
                source.line(f"{rows} = [{row}]", span)
            else:
                source.line(f"{rows}.append({row})", span)

    @property
    def one_insert_row(self) -> bool:
        """True if there is at most one insert row; ``ins`` is None before."""
        return self.alone and (self.code.steps.kind != "fully_aggregated_grouped" or self.one_group)

    @property
    def one_remove_row(self) -> bool:
        """True if there is at most one remove row; ``rem`` is None before."""
        if not self.alone or self.code.steps.kind == "fully_aggregated":
            return False
        if self.code.steps.kind == "fully_aggregated_grouped":
            return self.one_group
        return self._one_leaves

    @property
    def _one_leaves(self) -> bool:
        return self.leaves is None or self.leaves[0].startswith("if ")

    @property
    def no_remove_row(self) -> bool:
        """True if an arrival makes no remove row: rows stand for events, and none leaves."""
        return self.alone and self.leaves is None and not self.code.steps.rows_per_group

    @property
    def one_group(self) -> bool:
        """True if an arrival changes no group but its own."""
        steps = self.code.steps
        same = self.leaves is None or (steps.evicts_own_group and steps.where is None)
        several = self.code.local or steps.levels or self.code.risky or steps.may_leave_unentered
        return self.alone and same and not several

    def arrival_delta(self, leaves: tuple[str, str] | None, emit: Emitter, *, hoisted: bool) -> None:
        """Write the delta of an arriving event that enters alone, with the items that leave, and its delivery."""
        steps, source = self.code.steps, self.code.source
        self.alone, self.leaves, self.hoisted = True, leaves, hoisted
        rows_of_events = steps.kind in ("aggregated", "aggregated_grouped")
        visited_again = self.code.risky or bool(self.code.local or steps.levels)
        visited_again |= rows_of_events and steps.makes_remove_rows and not self._one_leaves
        if leaves is not None and leaves is not EVICTED_BLOCK and visited_again:
            self._materialize(*leaves)
        one_row = self.one_insert_row and (self.no_remove_row or not steps.makes_remove_rows)
        self.direct = emit if one_row and steps.makes_insert_rows and not self.code.risky else None
        self.flat = emit if isinstance(emit, RecordEmitter) else None
        if self.direct is None:
            if steps.makes_insert_rows:
                source.line("ins = None" if self.one_insert_row else "ins = []")
            if steps.makes_remove_rows:
                source.line("rem = None" if self.one_remove_row or self.no_remove_row else "rem = []")
        self.change()
        if self.direct is None:
            emit("ins", "rem")
        self.alone, self.leaves, self.hoisted, self.direct, self.flat = False, None, False, None, None
        self.passed = self.loaded = False

    def timer_delta(self, emit: RecordEmitter) -> None:
        """Write a delta of a timer within a batch; records go to ``ins`` and ``rem``."""
        steps, source = self.code.steps, self.code.source
        if steps.kind == "fully_aggregated":
            source.line("forced = not batch and not former")
        self.flat = emit
        if self._leaves_one_group:
            with source.block("if len(former) == 1 and not batch:"):
                self.left(self._left_one_group)
            with source.block("else:"):
                self.change()
        else:
            self.change()
        self.flat = None

    def _materialize(self, head: str, item: str) -> None:
        source = self.code.source
        source.line("former = []")
        with source.block(head):
            source.line(f"former.append({item})")
        self.leaves = "for item in former:", "item"

    def change(self) -> None:
        """Write the delta; rows go to ``ins`` and ``rem``. ``forced`` asks for a row even of an empty delta, where one
        row stands for all events.
        """
        kind = {
            "unaggregated": self._unaggregated,
            "aggregated": self._aggregated,
            "fully_aggregated": self._fully_aggregated,
            "aggregated_grouped": self._aggregated_grouped,
            "fully_aggregated_grouped": self._fully_grouped,
        }[self.code.steps.kind]
        if self.code.breaks:
            self.code.source.line("broken = None")
        if self.code.steps.grouped and self.code.aggregates.lasting:
            self.code.source.line("emptied = {}")
        kind()

    def _moved(self) -> None:
        if self.code.breaks:
            with self.code.source.block("if broken is not None:"):
                self.code.source.line("raise broken")

    @property
    def _at_once(self) -> bool:
        """True if a remove row can be made where its item leaves: all cells are updated and nothing fails."""
        return self.alone and not self.code.risky and (self._one_leaves or not self.code.steps.makes_remove_rows)

    def _unaggregated(self) -> None:
        steps = self.code.steps
        if steps.makes_remove_rows:
            self.left(lambda q: self.append_row("rem", q))
        elif self.leaves is not None and not self.leaves[1].isidentifier():  # evict what nobody reads
            with self.code.source.block(self.leaves[0]):
                self.code.source.line(self.leaves[1])
        if steps.makes_insert_rows:
            self.entered(lambda q: self.append_row("ins", q))

    def _move_one_group(self, note: str, leave: WriteBody) -> None:
        source, cells, steps = self.code.source, self.code.aggregates, self.code.steps

        def enter(q: CodeScope) -> None:
            self._enter(q)
            if note:
                source.line(note)

        if steps.resets_aggregates:
            cells.load(cells.fresh())
        self.entered(enter)
        if not steps.resets_aggregates:
            self.left(leave)
        if steps.resets_aggregates and cells.names:
            source.line(f"A[:] = [{', '.join(cells.names)}]")
        elif not self.hoisted:
            cells.store("A")
        self._moved()

    @property
    def _afresh(self) -> bool:
        """True if each delta starts with empty aggregates, which the former rows show, too."""
        return self.code.steps.join is not None and self.code.steps.resets_aggregates

    def _load_former_group(self) -> None:
        if self._afresh:
            self.code.aggregates.load(self.code.aggregates.fresh())
        else:
            self.code.load_group_or_fresh("former_groups" if self.code.steps.resets_aggregates else "groups")

    def _replace_groups(self) -> None:
        self.code.source.line("former_groups, groups = groups, {}")
        self.code.source.line("S.groups = groups")

    def _load_one_group(self) -> None:
        if self._afresh:
            self.code.aggregates.load(self.code.aggregates.fresh())
        elif not self.loaded:
            self.code.aggregates.load("A")

    def _aggregated(self) -> None:
        steps, at_once = self.code.steps, self._at_once
        self._note_passing()
        self._load_one_group()

        def leave(q: CodeScope) -> None:
            self._leave(q)
            if at_once and steps.makes_remove_rows:
                self.append_row("rem", q)

        self._move_one_group("", leave)
        if steps.makes_insert_rows:
            self.entered(lambda q: self.append_row("ins", q))
        if steps.makes_remove_rows and not at_once:
            self.left(lambda q: self.append_row("rem", q))

    def _fully_aggregated(self) -> None:
        source, steps = self.code.source, self.code.steps
        always = self.alone and steps.where is None
        self._note_passing()
        if not always:
            source.line("changed = False" if self.alone else "changed = forced")
        self._load_one_group()
        if steps.makes_remove_rows:
            source.line("before = []")
            self.former_row("before")

        def leave(q: CodeScope) -> None:
            self._leave(q)
            if not always:
                source.line("changed = True")

        self._move_one_group("" if always else "changed = True", leave)
        if steps.resets_aggregates:
            self.left(lambda q: source.line("changed = True"))
        with nullcontext() if always else source.block("if changed:"):
            if steps.makes_remove_rows:
                source.line("rem += before")
            if steps.makes_insert_rows:
                self.append_row("ins", self.p if self.alone else self.q)

    def _enter_group(self, q: CodeScope, before: Callable[[], None] | None = None) -> None:
        self.code.open_group("H")
        if before is not None:
            before()
        self._enter(q)
        self.code.aggregates.store("H")

    def _move_groups(self, touch: WriteBody) -> None:
        source, code, resets = self.code.source, self.code, self.code.steps.resets_aggregates

        def enter(q: CodeScope) -> None:
            source.line(f"k = {code.key(q)}")
            if resets:
                touch(q)
                self._enter_group(q)
            else:
                self._enter_group(q, lambda: touch(q))

        def leave(q: CodeScope) -> None:
            source.line(f"k = {code.key(q)}")
            if resets:
                touch(q)
            else:
                code.leave_group(q, lambda: touch(q), emptied=True)

        if resets:
            self._replace_groups()
        self.entered(enter)
        self.left(leave)
        self._moved()

    def _aggregated_grouped(self) -> None:
        source, code, steps = self.code.source, self.code, self.code.steps
        if self._at_once:
            self._one_event_of_a_group()
            return
        self._note_passing()
        self._move_groups(lambda q: None)

        def row(rows: str) -> WriteBody:
            def write(q: CodeScope) -> None:
                source.line(f"k = {code.key(q)}")
                code.load_group_or_fresh(emptied=True)
                self.append_row(rows, q)

            return write

        if steps.makes_insert_rows:
            self.entered(row("ins"))
        if steps.makes_remove_rows:
            self.left(row("rem"))

    def _one_event_of_a_group(self) -> None:
        source, code, steps, cells = self.code.source, self.code, self.code.steps, self.code.aggregates
        self._note_passing()
        same = steps.evicts_own_group and self.leaves is not None

        def leave(q: CodeScope) -> None:
            if same:
                self._leave(q)
            else:
                source.line(f"k = {code.key(q)}")
                code.leave_group(q)
            if steps.makes_remove_rows:
                self.append_row("rem", q)
            if not same:
                with self._passes():
                    cells.load("H")

        if same:
            source.line(f"k = {code.key(self.p)}")
            code.open_group("H")
            self.entered(self._enter)
            self.left(leave)
            cells.store("H")
            if cells.size is not None and steps.where is not None:
                with source.block(f"if not {cells.size}:"):
                    source.line("del groups[k]")
        else:

            def enter(q: CodeScope) -> None:
                source.line(f"k = {code.key(q)}")
                self._enter_group(q)

            self.entered(enter)
            self.left(leave)
        self._moved()
        if steps.makes_insert_rows:
            self.entered(lambda q: self.append_row("ins", q))

    def _fully_grouped(self) -> None:
        source, code, steps = self.code.source, self.code, self.code.steps
        if steps.levels:
            self._rolled_up()
            return
        if self.one_group and not self.collects_groups:
            self.entered(self._one_touched_group)
            return
        self._note_passing()
        if self.collects_groups:
            self._move_groups(lambda _: source.line("touched[k] = None"))
            return
        source.line("touched = {}")

        def touch(q: CodeScope) -> None:
            if not steps.makes_remove_rows:
                source.line("touched[k] = None")
                return
            first = self.alone and q is self.p
            with nullcontext() if first else source.block("if k not in touched:"):
                source.line("touched[k] = None")
                if steps.resets_aggregates or code.local:
                    self._load_former_group()
                self.former_row("rem")

        if code.local:  # a change of one group shows in the rows of others: all former rows come first

            def touch_only(q: CodeScope) -> None:
                source.line(f"k = {code.key(q)}")
                touch(q)

            self.entered(touch_only)
            self.left(touch_only)
            self._move_groups(lambda q: None)
        else:
            self._move_groups(touch)
        if steps.makes_insert_rows:
            with source.block(f"for k in {self._touched()}:"):
                code.load_group_or_fresh(emptied=True)
                self.append_row("ins", self.q)

    @property
    def _leaves_one_group(self) -> bool:
        """True if one leaving item changes only its own group, whose former state is not visible."""
        steps, code = self.code.steps, self.code
        if steps.kind != "fully_aggregated_grouped" or code.aggregates.size is None:
            return False
        apart = code.local or steps.levels or code.risky or code.table or code.aggregates.lasting
        apart = apart or steps.may_leave_unentered
        return not (apart or steps.resets_aggregates or steps.buffers_input)

    def _left_one_group(self, q: CodeScope) -> None:
        source, code, cells = self.code.source, self.code, self.code.aggregates
        source.line(f"k = {code.key(q)}")
        code.find_to_leave()
        cells.load("G")
        if code.steps.makes_remove_rows:
            self.append_row("rem", q)
        self._leave(q)
        cells.store("G")
        with source.block(f"if not {cells.size}:"):
            source.line("del groups[k]")
            cells.load(cells.fresh())
        if code.steps.makes_insert_rows:
            self.append_row("ins", q)

    def _touched(self) -> str:
        """Return the code of changed groups; with buffered input in the order in which they appeared."""
        source, steps = self.code.source, self.code.steps
        if not steps.buffers_input or steps.resets_aggregates:
            return "touched"
        appeared = self.code.slot("{}")
        source.line(f"appeared = {appeared}")
        with source.block("for k in touched:"):
            source.line("appeared.setdefault(k, S.ordinal)")
            source.line("S.ordinal += 1")
        source.line("touched = sorted(touched, key=appeared.__getitem__)")
        with source.block("for k in touched:"), source.block("if k not in groups:"):
            source.line("del appeared[k]")
        return "touched"

    def _one_touched_group(self, q: CodeScope) -> None:
        source, code, cells = self.code.source, self.code, self.code.aggregates
        source.line(f"k = {code.key(q)}")
        code.open_group("H")
        if code.steps.makes_remove_rows:
            self.append_row("rem", self.gone)
        self._enter(q)
        self.left(self._leave)
        cells.store("H")
        if code.steps.makes_insert_rows:
            self.append_row("ins", q)

    def _rolled_up(self) -> None:
        """Write the groups of several grouping sets. Rows come set by set, groups of entered items first."""
        source, code, cells = self.code.source, self.code, self.code.aggregates
        levels, makes_remove_rows = self.code.steps.levels, self.code.steps.makes_remove_rows
        self._note_passing()
        source.line(f"touched = [{', '.join(['{}'] * len(levels))}]")
        if self.code.steps.resets_aggregates:
            self._replace_groups()

        def move(entering: bool) -> WriteBody:
            def write(q: CodeScope) -> None:
                keys = ", ".join(code.level_key(q, level) for level in range(len(levels)))
                with source.block(f"for k in ({keys},):"):
                    with source.block("if k not in touched[k[0]]:"):
                        source.line("touched[k[0]][k] = rows_before = []")
                        if makes_remove_rows:
                            self._load_former_group()
                            self.former_row("rows_before")
                    if not entering:
                        if self.code.steps.resets_aggregates:
                            return
                        code.leave_group(q, emptied=True)
                        return
                    code.open_group()
                    cells.enter(q, "o" if q is self.p else "qo")
                    cells.store("G")

            return write

        self.entered(move(True))
        self.left(move(False))
        self._moved()
        with source.block("for level in touched:"), source.block("for k, rows_before in level.items():"):
            if makes_remove_rows:
                source.line("rem += rows_before")
            if self.code.steps.makes_insert_rows:
                code.load_group_or_fresh(emptied=True)
                self.append_row("ins", self.q)
