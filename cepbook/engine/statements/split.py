"""`on … insert … output` (split stream) as a running statement.

All branches are evaluated before the first row is inserted, so a failing expression inserts nothing.
"""

from __future__ import annotations

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.on_set import trigger_program, write_event_functions
from cepbook.lang.plan import nodes as p


def compile_split(plan: p.SplitStatement, scope_in: ScopeFactory) -> StatementProgram:
    """Compile a statement that inserts each event where its branches say. Errors: Refusal."""
    source = SourceWriter()
    source.bind("route", None)  # bound when the statement starts
    plain = [branch for branch in plan.branches if not branch.contained]
    values = [e for b in plain for e in (b.predicate, *(c.value for c in b.columns))]
    names = lower.property_names(plan.source.filter, *values)
    props = {name: f"p{i}" for i, name in enumerate(names)}
    scope = scope_in(source).at(props=lower.property_codes(props), events={0: "e"})
    for number, branch in enumerate(plan.branches):
        if branch.contained:
            write_unnest(branch.contained, scope_in(source), f"unfold{number}")
    write_event_functions(plan, props, scope, lambda: _branches(plan, scope))
    write_state(source, StatementState, "[]", subqueries=scope.subqueries)
    program = trigger_program(plan, source, tuple(names), scope_in)
    program.row_columns = None  # an event that no branch takes is delivered unchanged
    return program


def _branches(plan: p.SplitStatement, scope: CodeScope) -> None:
    source = scope.source
    if plan.output_all:
        source.line("made = []")
    for number, branch in enumerate(plan.branches):
        if branch.contained:
            _insert_contained(number, branch, plan.output_all, scope)
        else:
            _insert_where(number, branch, plan.output_all, scope)
    if plan.output_all:
        with source.block("for number, row in made:"):
            source.line("route(number, row, S)")
    with source.block("if push and not made:" if plan.output_all else "if push:"):
        source.line("push(clock.now, [e], None)")


def _insert_contained(number: int, branch: p.SplitBranch, collect: bool, scope: CodeScope) -> None:
    source = scope.source
    values = (branch.predicate, *(column.value for column in branch.columns))
    props = {name: f"c.get({source.const(name, 'n')})" for name in lower.property_names(*values)}
    own = scope.at(props=lower.property_codes(props), events={0: "c"})
    with source.block(f"for c in unfold{number}(e, S) or ():", branch.contained[0].span):
        _insert_where(number, branch, collect, own)


def _insert_where(number: int, branch: p.SplitBranch, collect: bool, scope: CodeScope) -> None:
    if branch.predicate is None:
        _insert(number, branch, collect, scope)
    else:
        with scope.source.block(f"if {lower.truth(scope, branch.predicate)}:", branch.predicate.span):
            _insert(number, branch, collect, scope)


def _insert(number: int, branch: p.SplitBranch, collect: bool, scope: CodeScope) -> None:
    source, row = scope.source, _row(branch, scope)
    if collect:
        source.line(f"made.append(({number}, {row}))", branch.span)
    else:
        source.line(f"route({number}, {row}, S)", branch.span)
        source.line("return True")


def _row(branch: p.SplitBranch, scope: CodeScope) -> str:
    source = scope.source
    values = [
        f"{source.const(c.name, 'n')}: {source.part(c.value.span)}{lower.value(scope, c.value)}" for c in branch.columns
    ]
    if branch.wildcard:
        return "{" + ", ".join([f"**{scope.events[0]}", *values]) + "}" if values else scope.events[0]
    return "{" + ", ".join(values) + "}"
