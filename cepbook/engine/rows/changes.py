"""Code that takes a change through a statement: items that entered, then items that left, all in one delivery.

A batch is such a change (the batch and the former one), and so is what views post (`rows.general`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from cepbook.engine.rows.aggregate import Leaving
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.expr import Scope, may_fail, truth

Write = Callable[[Scope], None]


class ChangeCode:
    """Writes what the locals ``batch`` (entered) and ``former`` (left) do to rows and groups.

    With `alone` the arriving event ``new`` is all that entered, and there is no ``batch``.
    With `resets` aggregates are made anew from ``batch``, and ``former`` is only looked at for its rows. Items are
    taken apart in scope `q` where they enter, in `left` where they leave.
    """

    code: Code
    alone = False
    resets: bool
    q: Scope
    left: Scope

    def each(self, items: str, body: Write) -> None:
        """Write `body` for each of `items` (``batch`` or ``former``) that passes the where-clause."""
        shape = self.code.shape
        if items == "former" and shape.general and shape.leaving is Leaving.NEVER:
            return  # aggregates have no code for it either
        scope = self.left if items == "former" else self.q
        if items == "batch" and self.alone:
            loop: AbstractContextManager[None] = nullcontext()
            self.code.source.line("item = new")
        else:
            loop = self.code.source.block(f"for item in {items}:")
        with loop:
            self.code.items.unpack(self.code.source, "item")
            with self._where(items, scope):
                body(scope)

    def _where(self, items: str, scope: Scope) -> AbstractContextManager[None]:
        """The where-clause. Its failure keeps an event out, and is told when it enters, not again when it leaves."""
        source, where = self.code.source, self.code.shape.where
        if where is None or not (self.code.risky and may_fail(where)):
            return self.code.where(scope)
        with source.block("try:"):
            source.line(f"ok = {truth(scope, where)}", where.span)
        with source.block("except Exception as failure:"):
            source.line("ok = False" if items == "former" else "broken, ok = failure, False")
        return source.block("if ok:")

    def former_row(self, rows: str) -> None:
        """`append_row` of what was before the change, which a failure must not keep from taking place."""
        if not self.code.shape.former_rows_may_fail:
            self.append_row(rows, self.left)
            return
        with self.code.source.block("try:"):
            self.append_row(rows, self.left)
        with self.code.source.block("except Exception as failure:"):
            self.code.source.line("broken = failure")

    def append_row(self, rows: str, scope: Scope) -> None:
        """``rows.append(row)`` if having lets it through; with `alone` the one insert row is ``ins = [row]``."""
        self.code.append_row(rows, scope, only=rows == "ins" and self.one_insert_row)

    @property
    def one_insert_row(self) -> bool:
        """Whether there is at most one insert row; ``ins`` is null before."""
        return self.alone and self.code.shape.kind != "fully_aggregated_grouped"

    def change(self) -> None:
        """Write what the change does; rows go to ``ins`` and ``rem``.

        ``forced`` asks for a row even without a change, where one row stands for all events.
        """
        kind = {
            "unaggregated": self._rows_of_events,
            "aggregated": self._aggregated,
            "fully_aggregated": self._fully_aggregated,
            "aggregated_grouped": self._aggregated_grouped,
            "fully_aggregated_grouped": self._fully_grouped,
        }[self.code.shape.kind]
        if self.code.risky:
            self.code.source.line("broken = None")
        kind()

    def _moved(self) -> None:
        """All cells are as they are to be: a failure on the way now keeps the statement from making rows."""
        if self.code.risky:
            with self.code.source.block("if broken is not None:"):
                self.code.source.line("raise broken")

    def _rows_of_events(self) -> None:
        if self.code.shape.wants_insert:
            self.each("batch", lambda q: self.append_row("ins", q))
        if self.code.shape.wants_remove:
            self.each("former", lambda q: self.append_row("rem", q))

    def _move_one_group(self, note: Write) -> None:
        """Aggregates of the one group from what they were to what they are with the change."""
        cells = self.code.aggregates
        if self.resets:
            cells.load(cells.fresh())
            self.each("batch", _both(cells.enter, note))
        else:
            self.each("batch", _both(self.code.enter, note))
            self.each("former", _both(self.code.leave, note))
        if cells.names:
            self.code.source.line(f"A[:] = [{', '.join(cells.names)}]")
        self._moved()

    def _aggregated(self) -> None:
        self.code.aggregates.load("A")
        self._move_one_group(lambda q: None)
        self._rows_of_events()

    def _fully_aggregated(self) -> None:
        source, code, shape = self.code.source, self.code, self.code.shape
        source.line("before, changed = [], forced")
        code.aggregates.load("A")
        if shape.wants_remove:
            self.former_row("before")
        self._move_one_group(lambda q: source.line("changed = True"))
        if self.resets:
            self.each("former", lambda q: source.line("changed = True"))
        with source.block("if changed:"):
            if shape.wants_remove:
                source.line("rem += before")
            if shape.wants_insert:
                self.append_row("ins", self.q)

    def _move_groups(self, touch: Write) -> None:
        """Groups from what they were to what they are; `touch` is written before each change."""
        source, code, cells = self.code.source, self.code, self.code.aggregates

        def enter(q: Scope) -> None:
            source.line(f"k = {code.key(q)}")
            touch(q)
            code.open_group("k")
            code.enter(q)
            cells.store("G")

        def leave(q: Scope) -> None:
            source.line(f"k = {code.key(q)}")
            touch(q)
            if not self.resets:
                code.leave_group(q, "k")

        if self.resets:
            source.line("former_groups, groups = groups, {}")
            source.line("S[2] = groups")
        self.each("batch", enter)
        self.each("former", leave)
        self._moved()

    def _aggregated_grouped(self) -> None:
        code, shape = self.code, self.code.shape
        self._move_groups(lambda q: None)

        def row(rows: str) -> Write:
            def write(q: Scope) -> None:
                code.source.line(f"k = {code.key(q)}")
                code.load_group_or_fresh()
                self.append_row(rows, q)

            return write

        if shape.wants_insert:
            self.each("batch", row("ins"))
        if shape.wants_remove:
            self.each("former", row("rem"))

    def _fully_grouped(self) -> None:
        source, code, shape = self.code.source, self.code, self.code.shape
        if shape.levels:
            self._rolled_up()
            return
        source.line("touched = {}")

        def touch(q: Scope) -> None:
            if not shape.wants_remove:
                source.line("touched[k] = None")
                return
            with source.block("if k not in touched:"):
                source.line("touched[k] = None")
                code.load_group_or_fresh("former_groups" if self.resets else "groups")
                self.former_row("rem")

        if code.local:  # a change of one group shows in the rows of others: all former rows come first

            def touch_only(q: Scope) -> None:
                source.line(f"k = {code.key(q)}")
                touch(q)

            self.each("batch", touch_only)
            self.each("former", touch_only)
            self._move_groups(lambda q: None)
        else:
            self._move_groups(touch)
        if shape.wants_insert:
            with source.block("for k in touched:"):
                code.load_group_or_fresh()
                self.append_row("ins", self.q)

    def _rolled_up(self) -> None:
        """Groups of several grouping sets. Rows come set by set, in each the groups of arriving events first."""
        source, code, cells = self.code.source, self.code, self.code.aggregates
        levels, wants_remove = self.code.shape.levels, self.code.shape.wants_remove
        source.line(f"touched = [{', '.join(['{}'] * len(levels))}]")

        def move(entering: bool) -> Write:
            def write(q: Scope) -> None:
                keys = ", ".join(code.level_key(q, level) for level in range(len(levels)))
                with source.block(f"for k in ({keys},):"):
                    with source.block("if k not in touched[k[0]]:"):
                        source.line("touched[k[0]][k] = rows_before = []")
                        if wants_remove:
                            code.load_group_or_fresh()
                            self.former_row("rows_before")
                    if not entering:
                        code.leave_group(q, "k")
                        return
                    code.open_group("k")
                    cells.enter(q, "qo")
                    cells.store("G")

            return write

        self.each("batch", move(True))
        self.each("former", move(False))
        self._moved()
        with source.block("for level in touched:"), source.block("for k, rows_before in level.items():"):
            if wants_remove:
                source.line("rem += rows_before")
            if self.code.shape.wants_insert:
                code.load_group_or_fresh()
                self.append_row("ins", self.q)


def _both(first: Write, then: Write) -> Write:
    def write(scope: Scope) -> None:
        first(scope)
        then(scope)

    return write
