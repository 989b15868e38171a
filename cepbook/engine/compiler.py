"""From EPL text to programs that are ready to start; nothing here touches a running statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.engine.clock import Clock
from cepbook.engine.config import Config
from cepbook.engine.contained import compile_trigger
from cepbook.engine.contexts.forms import TreeForm, compile_tree, correlation
from cepbook.engine.contexts.keyed import Locators, compile_locators
from cepbook.engine.cycles.compile import compile_cycles, in_sql
from cepbook.engine.lots import in_lots
from cepbook.engine.merge import compile_merge, compile_rows
from cepbook.engine.onset import compile_create_variable, compile_on_set
from cepbook.engine.parcels import compile_parcels
from cepbook.engine.rows.compile import Program, compile_select
from cepbook.engine.rows.expr import Scope, ScopeIn
from cepbook.engine.rows.source import Source
from cepbook.engine.rows.subquery import compile_subqueries, scope_with
from cepbook.engine.split import compile_split
from cepbook.engine.table import compile_create_table
from cepbook.engine.update import compile_update
from cepbook.engine.variables import ContextVariable, Variable, Variables, initial_value
from cepbook.errors import BindError, Diagnostic, Refusal, cause_text, not_too_deep
from cepbook.lang.bind import Options
from cepbook.lang.catalog import Catalog
from cepbook.lang.plan import (
    CreateContextStatement,
    CreateContextTreeStatement,
    CreateExpressionStatement,
    CreateIndexStatement,
    CreateSchemaStatement,
    CreateTableStatement,
    CreateVariableStatement,
    CreateWindowStatement,
    CycleStatement,
    InsertRows,
    MergeStatement,
    ModulePlan,
    OnSetStatement,
    SelectStatement,
    SplitStatement,
    StatementPlan,
    UpdateStatement,
)
from cepbook.lang.reading import translated
from cepbook.lang.rewrite import rewrite


@dataclass(frozen=True, slots=True)
class Compiled:
    """A bound module with one program per running statement, and each context's locators or levels, by name.

    `catalog` and `variables` include what the module creates, and only what there is then.
    """

    plan: ModulePlan
    programs: Mapping[str, Program]
    locators: Mapping[str, Locators]
    trees: Mapping[str, TreeForm]
    catalog: Catalog
    variables: Variables
    inserted: Mapping[str, Callable[[], list[dict[str, Any]]]] = field(default_factory=dict)  # of queries: the rows


def options_of(config: Config) -> Options:
    """What the binder must know of `config`."""
    return Options(
        default_selector=config.default_stream_selector,
        integer_division=config.integer_division,
        microseconds=config.microseconds,
        time_zone=config.time_zone,
    )


@not_too_deep()
def bind_text(epl: str, catalog: Catalog, config: Config, names: Collection[str]) -> ModulePlan:
    """Parse, bind and rewrite `epl`, which may be of another dialect (`lang.text`). Errors: ParseError, BindError."""
    return rewrite(translated(epl, catalog, names, options_of(config)))


def _rules(statement: StatementPlan, scope_in: ScopeIn) -> ScopeIn:
    """How the expressions of `statement` are calculated."""
    if isinstance(statement, CycleStatement):
        return partial(in_sql, scope_in)
    if isinstance(statement, SelectStatement) and statement.lots:
        return partial(in_lots, scope_in)
    return scope_in


@not_too_deep()
def compile_plan(
    plan: ModulePlan,
    catalog: Catalog,
    clock: Clock,
    config: Config,
    functions: Mapping[str, Callable[..., Any]],
    variables: Variables,
) -> Compiled:
    """Programs of `plan`'s statements. New variables get their initial values from the present ones of `variables`.

    Errors: BindError when the row engine refuses a statement, or when an initial value cannot be computed.
    """
    after = catalog.copy()
    programs: dict[str, Program] = {}
    inserted: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    locators: dict[str, Locators] = {}
    trees: dict[str, TreeForm] = {}
    cells = {name: variables[name] for name in catalog.variables}
    scope_in = partial(scope_of, clock, config, dict(functions), cells)
    for statement in plan.statements:
        with _refusals(statement, plan):
            rules = _rules(statement, scope_in)
            inner = compile_subqueries(statement, rules)
        own = scope_with(inner, rules)
        if isinstance(statement, CreateSchemaStatement):
            after.event_types[statement.event_type.name] = statement.event_type
        elif isinstance(statement, CreateExpressionStatement):
            after.expressions[statement.expression.name] = statement.expression
        elif isinstance(statement, CreateContextStatement):
            after.contexts[statement.context.name] = statement.context
            with _refusals(statement, plan):
                locators[statement.context.name] = compile_locators(statement.spec, scope_in)
        elif isinstance(statement, CreateContextTreeStatement):
            name = statement.context.name
            after.contexts[name] = statement.context
            with _refusals(statement, plan):
                trees[name] = compile_tree(name, statement.spec, scope_in)
        elif isinstance(statement, CreateVariableStatement):
            name = statement.variable.name
            after.variables[name] = statement.variable
            with _refusals(statement, plan):
                if statement.context is None:
                    cells[name] = Variable(name, statement.variable.type, _initial(statement, scope_in, plan))
                else:
                    cells[name] = ContextVariable(name, statement.variable.type, None)
                programs[statement.name] = compile_create_variable(statement, scope_in, cells[name])
        elif isinstance(statement, OnSetStatement):
            with _refusals(statement, plan):
                programs[statement.name] = compile_trigger(compile_on_set, statement, own)
        elif isinstance(statement, UpdateStatement):
            with _refusals(statement, plan):
                programs[statement.name] = compile_update(statement, own)
        elif isinstance(statement, CycleStatement):
            with _refusals(statement, plan):
                programs[statement.name] = compile_cycles(statement, own, inner)
        elif isinstance(statement, CreateTableStatement):
            after.event_types[statement.store.name] = statement.output_type
            after.stores[statement.store.name] = statement.store
            with _refusals(statement, plan):
                programs[statement.name] = compile_create_table(statement, scope_in)
        elif isinstance(statement, CreateIndexStatement):
            after.indexes[statement.index.full_name] = statement.index
        elif isinstance(statement, InsertRows):
            with _refusals(statement, plan):
                inserted[statement.name] = compile_rows(statement, scope_in)
        elif isinstance(statement, MergeStatement):
            for action in (action for branch in statement.branches for action in branch.actions):
                if action.insert is not None and action.insert.creates and action.output_type is not None:
                    after.event_types[action.insert.target] = action.output_type
            with _refusals(statement, plan):
                programs[statement.name] = compile_trigger(compile_merge, statement, own)
        elif isinstance(statement, SplitStatement):
            created = [branch for branch in statement.branches if branch.insert.creates]
            after.event_types.update((branch.insert.target, branch.output_type) for branch in created)
            with _refusals(statement, plan):
                programs[statement.name] = compile_trigger(compile_split, statement, own)
        elif isinstance(statement, SelectStatement):
            if statement.insert is not None and statement.insert.creates:
                after.event_types[statement.insert.target] = statement.output_type
            if isinstance(statement, CreateWindowStatement):
                after.event_types[statement.store.name] = statement.output_type
                after.stores[statement.store.name] = statement.store
            iterable_unbound = config.iterable_unbound or statement.iterable_unbound or statement.source.nothing
            with _refusals(statement, plan):
                programs[statement.name] = compile_select(
                    statement,
                    own,
                    all_properties=_properties(statement, after),
                    iterable_unbound=iterable_unbound,
                    subqueries=tuple(each.steps for each in inner),
                )
                if statement.parcels is not None:
                    programs[statement.name].parcels = compile_parcels(statement.parcels, scope_in)
                if statement.context is not None and statement.join is None:
                    programs[statement.name].correlation = correlation(statement.source.filter, scope_in)
        if inner and statement.name in programs:
            programs[statement.name].subqueries = inner
    return Compiled(plan, programs, locators, trees, after, cells, inserted)


def _properties(statement: SelectStatement, catalog: Catalog) -> tuple[str, ...]:
    """The properties of the events that the statement reads."""
    source = statement.source
    if source.nothing:
        return ()
    found = catalog.event_types[source.event_type] if source.pattern is None else source.pattern.match_type
    return tuple(found.properties)


def _initial(statement: CreateVariableStatement, scope_in: ScopeIn, plan: ModulePlan) -> Any:
    if statement.initial is None:
        return None
    try:
        return initial_value(statement.initial, scope_in)
    except (Refusal, RecursionError, SyntaxError):
        raise
    except Exception as failure:
        message = f"the initial value of `{statement.variable.name}` failed: {cause_text(failure)}"
        raise BindError((Diagnostic("initial-value", message, statement.initial.span),), plan.source) from failure


def scope_of(
    clock: Clock, config: Config, functions: Mapping[str, Callable[..., Any]], variables: Variables, source: Source
) -> Scope:
    """What every expression that is written into `source` sees: the clock, the rules, functions and variables."""
    source.bind("clock", clock)
    return Scope(
        source,
        {},
        integer_division=config.integer_division,
        division_by_zero_null=config.division_by_zero_null,
        compensated_sums=config.compensated_sums,
        second=config.second,
        zone=config.time_zone,
        user_functions=functions,
        variables=variables,
    )


@contextmanager
def _refusals(statement: StatementPlan, plan: ModulePlan) -> Iterator[None]:
    """What the row engine refuses is told as a diagnostic of the statement."""
    try:
        yield
    except Refusal as refusal:
        diagnostic = Diagnostic("not-supported-yet", f"not supported yet: {refusal.reason}", statement.span)
        raise BindError((diagnostic,), plan.source) from refusal
