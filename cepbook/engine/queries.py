"""Fire-and-forget queries: asked once of what named windows and tables hold now.

A select is compiled like any statement that reads stores. It begins with the rows that they hold, which is all that it
ever sees, and its iterator has the answer (Esper reference, section "Fire-and-Forget Queries").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.compiler import compile_plan, options_of
from cepbook.engine.config import Config
from cepbook.engine.contexts.selectors import Selector, chosen
from cepbook.engine.delta import Row
from cepbook.engine.statement import Statement
from cepbook.lang.bind.query import bind_query
from cepbook.lang.dialects.epl import parse
from cepbook.lang.plan import ModulePlan, SelectStatement
from cepbook.lang.rewrite import rewrite
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows and the names and types of their columns."""

    rows: list[Row]
    properties: Mapping[str, Type]


def ask(runtime: Any, epl: str, selector: Selector | None = None) -> Answer:
    """The answer to `epl`, of the context partitions that `selector` means, of all without one.

    Errors: ParseError, BindError; StatementError where an expression fails on a row.
    """
    config: Config = runtime.config
    plan = rewrite(bind_query(parse(epl), runtime.catalog, epl, options_of(config)))
    return _select(runtime, plan, selector)


def _select(runtime: Any, plan: ModulePlan, selector: Selector | None) -> Answer:
    compiled = compile_plan(plan, runtime.catalog, runtime.clock, runtime.config, runtime.functions, runtime.variables)
    (select,) = plan.statements
    assert isinstance(select, SelectStatement) and select.source.store is not None
    statement = Statement(runtime, select, compiled.programs[select.name], (0, 0), "", plan.source, "query")
    try:
        rows = [row for each in _states(runtime, statement, select, selector) for row in each]
    except Exception as failure:
        raise statement.error(failure) from failure
    fresh = statement.outlet.layout.fresh
    return Answer([fresh(row) for row in rows], select.output_type.properties)


def _states(
    runtime: Any, statement: Statement, select: SelectStatement, selector: Selector | None
) -> Iterable[list[Any]]:
    """The rows of the one state, or with a context clause of one state for each partition."""
    assert select.source.store is not None
    store, program, now = runtime.stores[select.source.store.name], statement.program, runtime.clock.now
    if select.context is None:
        context = None if store.type.context is None else runtime.context(store.type.context)
        wanted = None if selector is None or context is None else chosen(selector, context.identities)
        states = [state for id_, state in store.owner.states() if wanted is None or id_ in wanted]
        parts = [(None, states)]
    else:
        context = runtime.context(select.context)
        wanted = None if selector is None else chosen(selector, context.identities)
        own = {id_: [state] for id_, state in store.owner.states()}
        shared = store.type.context != select.context
        every = [state for _, state in store.owner.states()]
        partitions = [p for p in context.partitions.values() if wanted is None or p.id in wanted]
        parts = [(p, every if shared else own.get(p.id, [])) for p in partitions]
    for partition, states in parts:
        items = store.stored(states)
        program.namespace["stored"] = lambda _, items=items: items
        state = program["new_state"](partition, now)
        program["prefill"](state, now)
        yield program["rows"](state, now)
