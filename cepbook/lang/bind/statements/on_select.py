"""``on … select [and delete]`` (Esper reference, section "On-Select and On-Select-Delete").

The statement is a join of the event, the only side that makes rows, with the rows of the named window or table.
"""

from __future__ import annotations

from dataclasses import fields, replace

from cepbook.lang.bind.clauses.annotations import Heading, deletes_silently
from cepbook.lang.bind.clauses.index_hints import check_index_hints, condition_of
from cepbook.lang.bind.clauses.insert_into import check_target_context
from cepbook.lang.bind.clauses.target_store import bind_target
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import walk
from cepbook.lang.syntax import ast


def bind_on_select(node: ast.OnTrigger, heading: Heading, module: ModuleScope) -> nodes.OnSelectStatement | None:
    """Return the statement, or None if it was reported."""
    action = node.action
    assert isinstance(action, ast.OnSelect)
    trigger = bind_trigger(node, "on … select", module)
    if isinstance(trigger, Scope):
        return None
    (source,) = action.select.sources
    assert isinstance(source.stream, ast.FilterStream)
    target = bind_target(source.stream.type_name, source.alias, source.span, node, module)
    if target is None:
        return None
    if action.select.selector not in (None, "istream"):
        fact = f"`select {action.select.selector}` in `on … select`, which has an insert stream only"
        module.wrong(fact, action.span)
    select = replace(
        action.select,
        selector="istream",
        sources=(source, replace(node.trigger, unidirectional=True)),
        joins=(ast.Join("inner", None, span=node.span),),
        context=node.context,
        annotations=node.annotations,
        span=node.span,
    )
    if select.insert_into is not None:
        check_target_context(select.insert_into.target, node.context, node.span, module)
    bound = bind_select(select, heading, module)
    if bound is None:
        return None
    _refuse_rows_before(bound, module)
    check_index_hints(node.annotations, target.store, condition_of(bound.root), module)
    values = {field.name: getattr(bound, field.name) for field in fields(bound) if field.init}
    silent = action.delete and deletes_silently(node.annotations)
    return nodes.OnSelectStatement(**values, target=target.store, deletes=action.delete, silent=silent)


def _refuse_rows_before(statement: nodes.SelectStatement, module: ModuleScope) -> None:
    """Report prev and prior: rows of stores have no order of arrival.

    Subqueries have data windows of their own and are not checked.
    """
    for top in walk(statement):
        for subexpr in x.walk(top) if isinstance(top, x.BoundExpr) else ():
            if isinstance(subexpr, (x.Prev, x.Prior)):
                what = f"`{'prior' if isinstance(subexpr, x.Prior) else 'prev'}` is not allowed in `on … select`"
                module.wrong(what, subexpr.span, "it is for the rows of a data window")
