"""Code of outer joins, which are made stream after stream in the order in which they are written.

``extend2(R, before)`` joins stream 2 to combinations of the streams before it. ``with2(R, items)`` returns the
combinations of the streams up to 2 that contain one of the `items` of stream 2. ``all2(R)`` returns all combinations of
the streams up to 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.codegen.join import JoinCodegen
from cepbook.engine.codegen.join_view import MISSING_ORDINAL
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.access import inputs_read


def join_codegen(code: CodegenContext) -> JoinCodegen:
    """Return the code generator for the join of the statement, inner or outer."""
    join = code.steps.join
    assert join is not None
    return JoinCodegen(code) if join.inner else OuterJoinCodegen(code)


class OuterJoinCodegen(JoinCodegen):
    """Writes a join in which an event may have no partner."""

    def _write_combinations(self) -> None:
        last = len(self.inputs) - 1
        for number, stream in enumerate(self.join.node.inputs):
            missing = ", ".join([str(MISSING_ORDINAL), *["None"] * (len(self.rows.inputs[number].parts) - 1)])
            self.source.line(f"nothing{number} = ({missing},)")
            if number:
                self._write_extend(number, stream.kind)
            self._write_with(number, stream.kind)
            with self.source.block(f"def all{number}(R):"):
                self._write_all(number, stream.kind)
        needed = self._required()
        for number, active in enumerate(self.join.active):
            if not active:
                continue
            with self.source.block(f"def find{number}(R, items):"):
                self.source.line(f"found = {self._up_to(number, last, 'items')}")
                self._write_required(needed)
        with self.source.block("def joined_rows(R):"):
            self.source.line(f"found = all{last}(R)")
            self._write_required(needed)

    def _required(self) -> list[int]:
        """Return the inputs without whose events there is no row: those of inner joins (recorded:
        inner_chain_then_full).
        """
        required: set[int] = set()
        for number, stream in enumerate(self.join.node.inputs):
            if number and stream.kind == "inner":
                required.update(inputs_read(stream.on) if stream.on is not None else range(number + 1))
        return sorted(required)

    def _write_required(self, needed: Sequence[int]) -> None:
        tests = " and ".join(f"item[{self.rows.place(n)}] >= 0" for n in needed)
        self.source.line(f"return [item for item in found if {tests}]" if tests else "return found")

    def _up_to(self, begin: int, end: int, items: str) -> str:
        code = f"with{begin}(R, {items})"
        for number in range(begin + 1, end + 1):
            code = f"extend{number}(R, {code})"
        return code

    def _write_extend(self, number: int, kind: str) -> None:
        source, path = self.source, self.join.beyond(number)
        before = sorted({n for e in self.join.tied(number) for n in inputs_read(e)} - {number})
        with source.block(f"def extend{number}(R, before):"):
            source.line("found = []")
            self._hoist(path)
            with source.block("for item in before:"):
                source.line(self._unpacking(range(number), "item"))
                source.line("alone = True")
                present = " and ".join(f"q{n}_o >= 0" for n in before)
                test = f"if {present}:" if present else "if True:"
                with source.block(test), self._loop_over(path), self._if(path.rest):
                    source.line(f"found.append(item + {self._item(number)})")
                    source.line("alone = False")
                if kind in ("left", "full"):
                    with source.block("if alone:"):
                        source.line(f"found.append(item + nothing{number})")
            source.line("return found")

    def _write_with(self, number: int, kind: str) -> None:
        source = self.source
        with source.block(f"def with{number}(R, items):"):
            if number == 0:
                source.line("return list(items)")
                return
            source.line("found = []")
            partners = self.join.before(number)
            tied = self.join.reaches_back(number)
            if tied:
                self._hoist(partners)
            else:
                source.line(f"before = all{number - 1}(R)")
            with source.block(f"for i{number} in items:"):
                self._unpack(number)
                source.line("alone = True")
                if tied:
                    source.line("partners = []")
                    with self._loop_over(partners), self._if(partners.rest):
                        source.line(f"partners.append({self._item(partners.input)})")
                    source.line(f"before = {self._up_to(partners.input, number - 1, 'partners')} if partners else ()")
                with source.block("for item in before:"):
                    source.line(f"found.append(item + i{number})")
                    source.line("alone = False")
                if kind in ("right", "full"):
                    nothing = " + ".join(f"nothing{n}" for n in range(number))
                    with source.block("if alone:"):
                        source.line(f"found.append({nothing} + i{number})")
            source.line("return found")

    def _write_all(self, number: int, kind: str) -> None:
        source = self.source
        rows = self._whole(number)
        if number == 0:
            source.line(f"return list({rows})")
            return
        source.line(f"found = extend{number}(R, all{number - 1}(R))")
        if kind in ("right", "full"):
            missing = " and ".join(f"item[{self.rows.place(n)}] < 0" for n in range(number))
            source.line(f"found += [item for item in with{number}(R, {rows}) if {missing}]")
        source.line("return found")
