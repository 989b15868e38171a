"""`on … merge`, `on … delete`, `on … update` and `insert into … values` as Python code.

An event visits the rows of a named window or table that the where-clause matches, by an index if possible, and collects
the changes. All changes are applied at once after the last row, so the store is unchanged if the evaluation of a row
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from operator import itemgetter
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.codegen.relation_loops import LookupCodegen, write_loop_head
from cepbook.engine.delivery.delivery_splitter import compile_delivery_key
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.assignments import updated_copy_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.on_set import trigger_program, write_event_functions
from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p


def compile_merge(plan: p.MergeStatement, scope_in: ScopeFactory) -> StatementProgram:
    """Compile a statement that changes a store. Raises Refusal for a construct that cannot run."""
    source = SourceWriter()
    writer = MergeCodegen(plan, scope_in(source), scope_in)
    writer.write()
    program = trigger_program(plan, source, tuple(writer.read), scope_in)
    program.row_columns = None
    program.index_requests = writer.lookups.requests
    return program


class MergeCodegen:
    """Writes the code of one statement.

    In the code `S` is the state of the statement, `T` that of the store's owner, `e` the event, `x` what the lookup
    returns, `i` an item of it (an ordinal and more, the row last) and `r` its row. `old` has the items that leave,
    `new` the rows that enter, `origins` the items that these replace (None: inserted), `routed` the rows for streams
    with the number of their insert. Plans number the streams: 0 is the row, 1 the event, 2 the row before any change.
    """

    def __init__(self, plan: p.MergeStatement, scope: CodeScope, scope_in: ScopeFactory) -> None:
        self.plan = plan
        self.scope_in = scope_in
        self.source = scope.source
        actions = [action for branch in plan.branches for action in branch.actions]
        exprs = [plan.predicate, *(branch.condition for branch in plan.branches)]
        exprs += [action.predicate for action in actions]
        exprs += [column.value for action in actions for column in action.columns]
        exprs += [e for action in actions for change in action.changes for e in (change.value, *change.path)]
        property_nodes = [node for e in exprs if e is not None for node in x.find(x.Prop, e)]
        names = {n: list(dict.fromkeys(node.name for node in property_nodes if node.stream == n)) for n in range(3)}
        names[0] += [c.name for a in actions for c in a.changes if c.path and c.name not in names[0]]
        filtered = lower.property_names(plan.source.filter)
        self.read = list(dict.fromkeys((*filtered, *names[1])))
        self.event = {name: f"p{number}" for number, name in enumerate(self.read)}
        self.row = {name: f"q{number}" for number, name in enumerate(names[0])}
        self.initial = {name: f"b{number}" for number, name in enumerate(names[2])}
        places = {
            **lower.property_codes(self.row, 0),
            **lower.property_codes(self.event, 1),
            **lower.property_codes(self.initial, 2),
        }
        self.scope = scope.at(props=places, events={0: "r", 1: "e", 2: "i[-1]"}, now="now", partition="S.partition")
        self.filter_scope = scope.at(props=lower.property_codes(self.event), events={0: "e"}, partition="S.partition")
        access = lower_statement(plan).emit.target_path
        assert access is not None
        self.access = access
        self.lookups = LookupCodegen(self.source)
        self._insert_number = 0
        changes = [change for action in actions for change in action.changes]
        self.resets = any(change.reset for change in changes)
        self.ranks = any(action.precedence is not None for action in actions)
        assigned = {change.name for change in changes if not change.path}
        # an assigned array element is changed in the delivered old row as well (recorded: ts_update_array_elements)
        elements = [c.name for c in changes if len(c.path) == 1 and c.path[0].type != t.STRING]  # no keys of maps
        self.shared_arrays = set(elements) - assigned
        self.reads_origins = plan.target.kind == "table" or bool(self.shared_arrays)

    def write(self) -> None:
        source, plan = self.source, self.plan
        for name in ("route", "store", "target", "move", "blank", "renew", "by_precedence"):
            source.bind(name, None)  # bound when the statement starts
        write_event_functions(plan, self.event, self.filter_scope, self._body)
        with source.block("def ask(S):"):  # the statement without an event, for a query
            source.line("e = {}")
            self._body()
        self.lookups.write_keys(lambda _, item: self._write_row_locals(item), self.scope)
        write_state(source, StatementState, "[]", subqueries=self.scope.subqueries)

    def _body(self) -> None:
        source, plan = self.source, self.plan
        self._insert_number = 0
        source.line("now = clock.now")
        source.line("T = target(S)")
        source.line("old, new = [], []")
        lists = {"origins": self.reads_origins, "routed": plan.inserts, "emptied": self.resets, "ranks": self.ranks}
        for name in (name for name, needed in lists.items() if needed):
            source.line(f"{name} = []")
        unmatched = [branch for branch in plan.branches if branch.matched is False]
        matched = [branch for branch in plan.branches if branch.matched is True]
        always = [branch for branch in plan.branches if branch.matched is None]
        if matched or unmatched:
            if unmatched:
                source.line("matched = False")
            source.line(f"x = {self.lookups.look(self.access)}(T)")
            with source.block(write_loop_head(self.access, "x", "i", self.scope, by_age=True)):
                self._on_row(matched, bool(unmatched))
            if unmatched:
                with source.block("if not matched:"):
                    self._branches(unmatched)
        for branch in always:
            self._actions(branch)
        if self.ranks:
            with source.block("if by_precedence:"):
                source.line(f"{source.bind('_sort_by_rank', sort_by_rank)}(new, ranks)")
        with source.block("if old or new:"):
            if self.shared_arrays:
                names = source.const(tuple(sorted(self.shared_arrays)), "names")
                source.line(f"old = {source.bind('_with_shared', with_changed_arrays)}(old, new, origins, {names})")
            origins = "origins" if self.reads_origins else "()"
            if plan.target.kind == "window":
                with source.block("if store.uniques:"):
                    source.line(f"store.check(T, old, new, {origins})", plan.span)
            source.line(f"move(T, old, new, {origins}, now)", plan.span)
            if self.resets:
                source.line("for i, names in emptied: renew(i, names)")
        if plan.inserts:
            with source.block("for number, row in routed:"):
                source.line("route(number, row, S)")
        with source.block("if push and (old or new):"):
            # a table changes its rows, a named window does not
            new_rows = "[{**row} for row in new] or None" if plan.target.kind == "table" else "new or None"
            old_rows = f"[*map({source.bind('_row_of', itemgetter(-1))}, old)] or None"
            pushed = f"{old_rows}, None" if plan.kind == "delete" else f"{new_rows}, {old_rows}"
            source.line(f"push(now, {pushed})")

    def _on_row(self, matched: Sequence[p.MergeBranchPlan], sets_matched: bool) -> None:
        source = self.source
        self._write_row_locals("i")
        for name, local in self.initial.items():
            source.line(f"{local} = r[{source.const(name, 'n')}]")
        rest = self.access.rest
        if rest:
            tests = " and ".join(lower.truth(self.scope, e) for e in rest)
            with source.block(f"if not ({tests}):", rest[0].span):
                source.line("continue")
        if sets_matched:
            source.line("matched = True")
        self._branches(matched)

    def _write_row_locals(self, item: str) -> None:
        self.source.line(f"r = {item}[-1]")
        for name, local in self.row.items():
            self.source.line(f"{local} = r[{self.source.const(name, 'n')}]")

    def _branches(self, branches: Sequence[p.MergeBranchPlan]) -> None:
        if not branches:
            return
        branch, *others = branches
        if branch.condition is None:
            self._actions(branch)
            # The branches behind it are not written, but their inserts keep their numbers.
            self._insert_number += sum(a.insert is not None for other in others for a in other.actions)
            return
        with self.source.block(f"if {lower.truth(self.scope, branch.condition)}:", branch.condition.span):
            self._actions(branch)
        if others:
            with self.source.block("else:"):
                self._branches(others)

    def _actions(self, branch: p.MergeBranchPlan) -> None:
        source = self.source
        updates = [action for action in branch.actions if action.kind == "update"]
        deletes = any(action.kind == "delete" for action in branch.actions)
        certain = any(action.predicate is None for action in updates)
        if updates and not certain:
            source.line("changed = False")
        if deletes:
            source.line("deleted = False")
        for action in branch.actions:
            predicate = action.predicate
            test = "" if predicate is None else f"if {lower.truth(self.scope, predicate)}:"
            with source.block(test, predicate.span) if predicate is not None else nullcontext():
                self._action(action)
                if action.kind == "update" and not certain:
                    source.line("changed = True")
        if not (updates or deletes):
            return
        tests = " or ".join(["changed"] * bool(updates) + ["deleted"] * deletes)
        with nullcontext() if certain else source.block(f"if {tests}:"):
            source.line("old.append(i)")
            if updates:
                with source.block("if not deleted:") if deletes else nullcontext():
                    self._put("r", "i")

    def _put(self, row: str, origin: str, *span: Span) -> None:
        self.source.line(f"new.append({row})", *span)
        if self.reads_origins:
            self.source.line(f"origins.append({origin})")

    def _action(self, action: p.MergeActionPlan) -> None:
        source = self.source
        if action.kind == "delete":
            source.line("deleted = True")
        elif action.kind == "update":
            source.line("r = r.copy()")
            for change in action.changes:
                if change.reset:
                    self._reset(change)
                    continue
                code = lower.value(self.scope, change.value)
                if change.path:
                    code = updated_copy_code(self.row[change.name], change, code, self.scope)
                local = f"{self.row[change.name]} = " if change.name in self.row else ""
                source.line(f"{local}r[{source.const(change.name, 'n')}] = {code}", change.span)
        else:
            columns = [
                f"{source.const(c.name, 'n')}: {source.part(c.value.span)}{lower.value(self.scope, c.value)}"
                for c in action.columns
            ]
            row = f"{{{', '.join(columns)}}}"
            if action.insert is None:
                self._put(row, "None", action.span)
                if self.ranks:
                    rank = 0 if action.precedence is None else self._rank(action.precedence)
                    source.line(f"ranks.append((len(new) - 1, {rank}))", action.span)
            else:
                source.line(f"routed.append(({self._insert_number}, {row}))", action.span)
                self._insert_number += 1

    def _rank(self, precedence: x.BoundExpr) -> str:
        rank = compile_delivery_key((precedence,), self.scope_in)
        return f"by_precedence and {self.source.const(rank, 'rank')}(new[-1])[0] or 0"

    def _reset(self, change: p.PropertyAssignment) -> None:
        source, name = self.source, self.source.const(change.name, "n")
        source.line(f"blank(r, ({name},))", change.span)
        source.line(f"emptied.append((i, ({name},)))")
        if change.name in self.row:
            source.line(f"{self.row[change.name]} = r[{name}]")


def sort_by_rank(new: list[dict[str, Any]], ranks: list[tuple[int, int]]) -> None:
    """Order the inserted rows of `new` by descending rank; `ranks` has their places, in the order of insertion."""
    ordered = [new[place] for place, _ in sorted(ranks, key=lambda ranked: -ranked[1])]
    for (place, _), row in zip(ranks, ordered, strict=True):
        new[place] = row


def compile_insert_rows(plan: p.InsertRows, scope_in: ScopeFactory) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that computes the rows of `insert into … values`.

    Raises Refusal for a construct that cannot run.
    """
    source = SourceWriter()
    scope = scope_in(source).at(now="clock.now")
    with source.block("def inserted():"):
        source.line("rows = []")
        for row in plan.rows:
            columns = [f"{source.const(c.name, 'n')}: {lower.value(scope, c.value)}" for c in row]
            source.line(f"rows.append({{{', '.join(columns)}}})", plan.span)
        source.line("return rows")
    inserted: Callable[[], list[dict[str, Any]]] = source.load()["inserted"]
    return inserted


def with_changed_arrays(
    old: list[Any], new: list[dict[str, Any]], origins: list[Any], names: tuple[str, ...]
) -> list[Any]:
    """Return copies of the items `old` with the arrays `names` of the new rows. Rows do not change."""
    after = {item[0]: row for row, item in zip(new, origins, strict=True) if item is not None}
    return [(*i[:-1], {**i[-1], **{n: after[i[0]][n] for n in names}}) if i[0] in after else i for i in old]
