"""Code of joins whose events meet along the on-clauses (see `lang.plan.join_tree`).

``meet0_1(R, i0)`` returns the rows that the item ``i0`` of input 0 finds at its neighbour, input 1: tuples of an item
of input 1 and the items that lie behind it. If input 1 may be missing, the only row without partners has the items
``nothing``. ``find0`` combines what an item finds at all its neighbours.

If on-clauses read several streams before their own, ``find0`` takes the combinations from stream to stream instead.
``branch0_1(R, i0)`` returns the combinations that begin with ``i0`` and have the items of input 1 and of the inputs
that depend on it, or the only one without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cepbook.engine.codegen.join import JoinCodegen
from cepbook.engine.codegen.join_view import MISSING_ORDINAL
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.join import JoinStep, OptionalBranch
from cepbook.lang.plan.references import streams_read

Rows = Sequence[tuple[object, ...]]


def join_codegen(code: CodegenContext) -> JoinCodegen:
    """Return the code generator for the join of the statement."""
    assert code.steps.join is not None
    if code.steps.join.follows_text:
        return StepwiseJoinCodegen(code)
    return TreeJoinCodegen(code) if code.steps.join.follows_tree else JoinCodegen(code)


class TreeJoinCodegen(JoinCodegen):
    """Writes a join in which an event goes from neighbour to neighbour."""

    def _write_combinations(self) -> None:
        self._write_missing_items()
        for number in range(len(self.inputs)):
            for neighbour in self.join.tree.beyond(number):
                self._write_meeting(number, neighbour)
        super()._write_combinations()

    def _write_missing_items(self) -> None:
        for number, input_ in enumerate(self.rows.inputs):
            self.source.line(f"nothing{number} = ({MISSING_ORDINAL},{' None,' * (len(input_.parts) - 1)})")

    def _write_meeting(self, number: int, neighbour: int) -> None:
        source, path, tree = self.source, self.join.step(number, neighbour), self.join.tree
        with source.block(f"def meet{number}_{neighbour}(R, i{number}{self._failing}):"):
            self._hoist(path)
            self._unpack(number)
            source.line("rows = []")
            with self._loop_over(path, bool(path.rest)), self._if(path.rest, guarded=True):
                branch, rows = self._branch(neighbour, number)
                if branch:
                    source.line(f"i{neighbour} = {self._item(neighbour)}")
                    source.line(f"rows += [(i{neighbour}, *row) for row in {rows}]")
                else:
                    source.line(f"rows.append(({self._item(neighbour)},))")
            missing = "".join(f"nothing{n}, " for n in tree.branch(neighbour, number))
            source.line(f"return rows or [({missing})]" if tree.optional(neighbour, number) else "return rows")

    def _branch(self, number: int, origin: int | None) -> tuple[list[int], str]:
        """Return the inputs that lie behind an input, and the code of the rows of their items."""
        tree, branch, code = self.join.tree, list[int](), ""
        combined = self.source.bind("_combined", combined_rows)
        for neighbour in tree.beyond(number, origin):
            branch += tree.branch(neighbour, number)
            meet = f"meet{number}_{neighbour}(R, i{number}{self._failing})"
            code = f"{combined}({code}, {meet})" if code else meet
        return branch, code

    @property
    def _failing(self) -> str:
        return ", failing" if self._may_fail else ""

    def write_found(self, number: int, items: str, write_match: Callable[[], None], *, apart: bool = False) -> None:
        tree, numbers = self.join.tree, range(len(self.inputs))
        steps = [(n, neighbour) for n in numbers for neighbour in tree.beyond(n)]
        early = [e for e in self.join.conditions if streams_read(e) <= {number}]
        tested = [e for e in self.join.conditions if any(self.join.tested_by(e, *step) for step in steps)]
        late = [e for e in self.join.conditions if e not in early and e not in tested]
        read = {n for e in late for n in streams_read(e)}
        branch, rows = self._branch(number, None)
        partners = " ".join(f"i{n}," for n in branch)
        with self.source.block(f"for i{number} in {items}:"):
            self._unpack(number)
            with self._if(early, guarded=True), self.source.block(f"for {partners} in {rows}:"):
                for other in branch:
                    if apart or other in read:
                        self._unpack(other)
                with self._if(late, guarded=True):
                    write_match()

    def _append(self, number: int) -> None:
        self.source.line(f"found.append({' + '.join(f'i{n}' for n in range(len(self.inputs)))})")


class StepwiseJoinCodegen(TreeJoinCodegen):
    """Writes a join whose on-clauses read several streams before their own: all combinations take one step after the
    other, so that each on-clause has the events that it reads.
    """

    def _write_combinations(self) -> None:
        self._write_missing_items()
        for number in range(len(self.inputs)):
            self._write_branches(number, self.join.steps_from(number), [number])
        JoinCodegen._write_combinations(self)

    def _write_branches(self, start: int, steps: Sequence[JoinStep | OptionalBranch], known: list[int]) -> None:
        """Write the functions of the optional branches among `steps`, whose inputs are added to `known`."""
        for step in steps:
            if isinstance(step, OptionalBranch):
                before = list(known)
                self._write_branches(start, step.steps, known)
                with self.source.block(f"def {self._branch_call(start, step, before)}:"):
                    self.source.line(f"rows = [({self._items(before)})]")
                    self._write_steps(start, step.steps, list(before))
                    missing = "".join(f"nothing{path.input}, " for path in step.paths)
                    self.source.line(f"return rows or [({self._items(before)} {missing})]")
            else:
                known.append(step.path.input)

    def _branch_call(self, start: int, branch: OptionalBranch, known: Sequence[int]) -> str:
        items = ", ".join(f"i{n}" for n in known)
        return f"branch{start}_{branch.paths[0].input}(R, {items}{self._failing})"

    def write_found(self, number: int, items: str, write_match: Callable[[], None], *, apart: bool = False) -> None:
        source, known = self.source, [number]
        source.line(f"rows = [(item,) for item in {items}]")
        self._write_steps(number, self.join.steps_from(number), known)
        with source.block(f"for {self._items(known)} in rows:"):
            if apart:
                for other in known:
                    self._unpack(other)
            write_match()

    def _write_steps(self, start: int, steps: Sequence[JoinStep | OptionalBranch], known: list[int]) -> None:
        """Write how the combinations ``rows`` of items of the inputs `known` are continued."""
        for step in steps:
            if isinstance(step, OptionalBranch):
                self._write_branch(start, step, known)
            else:
                self._write_step(step, known)
            known += [path.input for path in step.paths]
            self.source.line("rows = longer")

    def _write_branch(self, start: int, branch: OptionalBranch, known: Sequence[int]) -> None:
        source, together = self.source, [*known, *(path.input for path in branch.paths)]
        source.line("longer = []")
        with source.block(f"for {self._items(known)} in rows:"):
            call = self._branch_call(start, branch, known)
            if not branch.filters:
                source.line(f"longer += {call}")
                return
            with source.block(f"for {self._items(together)} in {call}:"):
                for number in sorted({n for e in branch.filters for n in streams_read(e)}):
                    self._unpack(number)
                with self._if(branch.filters, guarded=True):
                    source.line(f"longer.append(({self._items(together)}))")

    def _write_step(self, step: JoinStep, known: Sequence[int]) -> None:
        """Write how a combination gets an item of one further input."""
        source, path, target = self.source, step.path, step.path.input
        self._hoist(path)
        source.line("longer = []")
        with source.block(f"for {self._items(known)} in rows:"):
            read = {n for e in (*path.known, *path.rest, *step.filters) for n in streams_read(e)}
            for number in known:
                if number in read:
                    self._unpack(number)
            source.line("partners = []")
            with (
                source.block(f"if i{step.origin}[0] != {MISSING_ORDINAL}:"),
                self._loop_over(path, bool(path.rest)),
                self._if(path.rest, guarded=True),
            ):
                source.line(f"partners.append({self._item(target)})")
            alternative = f" or (nothing{target},)" if step.optional else ""
            with source.block(f"for i{target} in partners{alternative}:"):
                if target in read:
                    self._unpack(target)
                with self._if(step.filters, guarded=True):
                    source.line(f"longer.append(({self._items([*known, target])}))")

    @staticmethod
    def _items(numbers: Sequence[int]) -> str:
        return " ".join(f"i{n}," for n in numbers)


def combined_rows(first: Rows, second: Rows) -> Rows:
    """Return each row of one beside each of the other. Of two equally long ones the first varies fastest, else the
    longer (recorded: star_of_inner_joins_first_partner_varies_fastest).
    """
    if len(second) > len(first):
        return [one + other for one in first for other in second]
    return [one + other for other in second for one in first]
