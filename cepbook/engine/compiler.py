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
from cepbook.engine.contexts.keyed import Ways, compile_ways
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
from cepbook.lang.created import enter
from cepbook.lang.plan import (
    CreateContextStatement,
    CreateContextTreeStatement,
    CreateTableStatement,
    CreateVariableStatement,
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
    """A bound module with one program per running statement, and each context's ways or levels, by name.

    `catalog` and `variables` include what the module creates, and only what there is then.
    """

    plan: ModulePlan
    programs: Mapping[str, Program]
    ways: Mapping[str, Ways]
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
    cells = {name: variables[name] for name in catalog.variables}
    scope_in = partial(scope_of, clock, config, dict(functions), cells)
    made = _Compiling(plan, catalog.copy(), cells, scope_in, config.iterable_unbound)
    for statement in plan.statements:
        with _refusals(statement, plan):
            made.add(statement)
    return Compiled(plan, made.programs, made.ways, made.trees, made.catalog, made.variables, made.inserted)


@dataclass(slots=True)
class _Compiling:
    """A module while its statements are compiled, in their order: each sees what those before it have created.

    The other fields are those of `Compiled`.
    """

    plan: ModulePlan
    catalog: Catalog
    variables: dict[str, Variable]
    scope_in: ScopeIn
    iterable_unbound: bool
    programs: dict[str, Program] = field(default_factory=dict)
    ways: dict[str, Ways] = field(default_factory=dict)
    trees: dict[str, TreeForm] = field(default_factory=dict)
    inserted: dict[str, Callable[[], list[dict[str, Any]]]] = field(default_factory=dict)

    def add(self, statement: StatementPlan) -> None:
        """Compile one more statement. Errors: Refusal for what the row engine cannot run; BindError as above."""
        rules = _rules(statement, self.scope_in)
        inner = compile_subqueries(statement, rules)
        enter(statement, self.catalog)
        program = self._program(statement, scope_with(inner, rules), inner)
        if program is not None:
            self.programs[statement.name] = program
            if inner:
                program.subqueries = inner

    def _program(self, statement: StatementPlan, scope_in: ScopeIn, inner: tuple[Program, ...]) -> Program | None:
        """The program of a statement that runs. What others need of one that does not is put where they find it."""
        match statement:
            case SelectStatement():
                return self._select(statement, scope_in, inner)
            case OnSetStatement():
                return compile_trigger(compile_on_set, statement, scope_in)
            case SplitStatement():
                return compile_trigger(compile_split, statement, scope_in)
            case MergeStatement():
                return compile_trigger(compile_merge, statement, scope_in)
            case UpdateStatement():
                return compile_update(statement, scope_in)
            case CycleStatement():
                return compile_cycles(statement, scope_in, inner)
            case CreateTableStatement():
                return compile_create_table(statement, scope_in)
            case CreateVariableStatement(variable=variable):
                cell = self.variables[variable.name] = self._variable(statement)
                return compile_create_variable(statement, scope_in, cell)
            case CreateContextStatement(context=context, spec=spec):
                self.ways[context.name] = compile_ways(spec, scope_in)
            case CreateContextTreeStatement(context=context, spec=tree):
                self.trees[context.name] = compile_tree(context.name, tree, scope_in)
            case InsertRows():
                self.inserted[statement.name] = compile_rows(statement, scope_in)
        return None

    def _select(self, statement: SelectStatement, scope_in: ScopeIn, inner: tuple[Program, ...]) -> Program:
        program = compile_select(
            statement,
            scope_in,
            all_properties=_properties(statement, self.catalog),
            iterable_unbound=self.iterable_unbound or statement.iterable_unbound or statement.source.nothing,
            subqueries=tuple(each.steps for each in inner),
        )
        if statement.parcels is not None:
            program.parcels = compile_parcels(statement.parcels, self.scope_in)
        if statement.context is not None and statement.join is None:
            program.correlation = correlation(statement.source.filter, self.scope_in)
        return program

    def _variable(self, statement: CreateVariableStatement) -> Variable:
        """The variable as it begins; those of a context have a value in each partition."""
        name, type_ = statement.variable.name, statement.variable.type
        if statement.context is not None:
            return ContextVariable(name, type_, None)
        return Variable(name, type_, _initial(statement, self.scope_in, self.plan))


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
