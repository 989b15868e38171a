"""Fire-and-forget queries: asked once of what named windows and tables hold now.

A select is compiled like any statement that reads stores. It begins with the rows that they hold, which is all that it
ever sees, and its iterator has the answer (Esper reference, section "Fire-and-Forget Queries").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cepbook.engine.compiler import Compiled, compile_plan, options_of
from cepbook.engine.config import Config
from cepbook.engine.contexts.selectors import Selector, chosen
from cepbook.engine.delta import Row
from cepbook.engine.relations.store import Store
from cepbook.engine.statement import Statement
from cepbook.errors import UsageError
from cepbook.lang.bind.query import bind_query
from cepbook.lang.dialects.epl import parse
from cepbook.lang.plan import InsertRows, MergeStatement, SelectStatement
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
    runtime.rounds.check()
    config: Config = runtime.config
    plan = rewrite(bind_query(parse(epl), runtime.catalog, epl, options_of(config)))
    compiled = compile_plan(plan, runtime.catalog, runtime.clock, runtime.config, runtime.functions, runtime.variables)
    (query,) = plan.statements
    if isinstance(query, SelectStatement):
        answer = _select(runtime, query, compiled, selector)
        if query.insert is not None:
            _put(runtime, query.insert.target, [dict(row) for row in answer.rows])
        return answer
    if isinstance(query, InsertRows):
        rows = compiled.inserted[query.name]()
        _put(runtime, query.target.name, rows)
        return Answer(rows if query.target.kind == "window" else [], query.output_type.properties)
    assert isinstance(query, MergeStatement)
    return _change(runtime, query, compiled, selector)


def _put(runtime: Any, target: str, rows: list[Row]) -> None:
    """All rows are one change; under a context of each partition that they belong to."""
    store = runtime.stores[target]
    with runtime.rounds:
        try:
            store.put(rows, runtime.clock.now)
        except ValueError as failure:
            raise UsageError(str(failure)) from failure
        runtime.rounds.settled()


def _change(runtime: Any, query: MergeStatement, compiled: Compiled, selector: Selector | None) -> Answer:
    """The rows that an update or a delete has changed; no rows of a table."""
    statement = Statement(runtime, query, compiled.programs[query.name], (0, 0), "", compiled.plan.source, "query")
    store, program = runtime.stores[query.target.name], statement.program
    statement.changes_store(runtime.stores, query.target, None)
    statement.inner.find(runtime.stores, statement)
    found: list[Row] = []
    program.namespace["push"] = lambda now, insert, remove: found.extend(insert or ())
    statement.meet()
    context = None if store.type.context is None else runtime.context(store.type.context)
    wanted = None if selector is None or context is None else chosen(selector, context.identities)
    with runtime.rounds:
        for id_, state in store.owner.states():
            if wanted is None or id_ in wanted:
                program.namespace["target"] = partial(_same, state)
                own = statement.new_state(state[0])
                try:
                    program["ask"](own)
                except Exception as failure:  # noqa: BLE001 - told when what was changed is handed on
                    statement.failed(failure)
        runtime.rounds.settled()
    return Answer(found if store.type.kind == "window" else [], query.output_type.properties)


def _same(state: Any, _: Any) -> Any:
    return state


def _select(runtime: Any, select: SelectStatement, compiled: Compiled, selector: Selector | None) -> Answer:
    source = compiled.plan.source
    statement = Statement(runtime, select, compiled.programs[select.name], (0, 0), "", source, "query")
    statement.meet()
    statement.inner.find(runtime.stores, statement)
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
    program, now = statement.program, runtime.clock.now
    stores = {n: runtime.stores[source.store.name] for n, source in enumerate(select.sources) if source.store}
    partitions: list[Any] = [None]
    if select.context is not None:
        context = statement.context = runtime.context(select.context)
        wanted = None if selector is None else chosen(selector, context.identities)
        partitions = [p for p in context.partitions.values() if wanted is None or p.id in wanted]
    for partition in partitions:
        items = {number: _held(runtime, store, partition, selector) for number, store in stores.items()}
        program.namespace["stored"] = partial(_of_input, items)
        state = statement.new_state(partition)
        program["prefill"](state, now)
        yield program["rows"](state, now)


def _held(runtime: Any, store: Store, partition: Any, selector: Selector | None) -> list[Any]:
    """The items of a store: in a partition of its own context, else in those that `selector` means."""
    states = store.owner.states()
    if partition is not None and store.type.context == partition.name:
        states = [each for each in states if each[0] == partition.id]
    elif selector is not None and store.type.context is not None:
        wanted = chosen(selector, runtime.context(store.type.context).identities)
        states = [each for each in states if each[0] in wanted]
    return store.stored(state for _, state in states)


def _of_input(items: Mapping[int, list[Any]], state: Any, number: int = 0) -> list[Any]:
    return items[number]
