"""From EPL text to programs that are ready to start. Running statements are not affected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.dialects import translate
from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.codegen.select import compile_select
from cepbook.engine.codegen.subquery import compile_subqueries, scope_with_subqueries
from cepbook.engine.config import Config
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.context_compiler import compile_levels, compile_locators, correlation_keys
from cepbook.engine.contexts.keyed_context import FlatKeyedContext
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.cycles.cycle_program import compile_cycles, sql_scope
from cepbook.engine.delivery.delivery_splitter import compile_delivery_key
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.buffered_input import activation_scope
from cepbook.engine.statements.contained import compile_trigger
from cepbook.engine.statements.create_table import compile_create_table
from cepbook.engine.statements.merge import compile_insert_rows, compile_merge
from cepbook.engine.statements.on_set import compile_create_variable, compile_on_set
from cepbook.engine.statements.split import compile_split
from cepbook.engine.statements.update import compile_update
from cepbook.engine.statements.variables import ContextVariable, RuntimeVariable, Variables, compile_initial_value
from cepbook.engine.subscriptions.filter_index import StatementOrder
from cepbook.engine.time.clock import Clock
from cepbook.errors import BindError, Diagnostic, Refusal, exception_text, rejecting_deep_nesting
from cepbook.lang.bind import Options
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import PREDEFINED, Catalog
from cepbook.lang.plan.definitions import add_definitions
from cepbook.lang.rewrite import rewrite

ContextBuilder = Callable[[StatementOrder, EngineServices, PartitionListeners], Context]
_NO_SCOPE = CodeScope(SourceWriter(), {})
_DEFINITIONS = p.CreateSchemaStatement, p.CreateExpressionStatement, p.CreateIndexStatement  # they have no program


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """A bound module with one program per running statement, and the builder of each context, by statement.

    `catalog` and `variables` include the definitions of the module, and nothing that does not exist yet. `insert_rows`
    has the row functions of `insert into … values` queries.
    """

    plan: p.ModulePlan
    catalog: Catalog
    variables: dict[str, RuntimeVariable]
    programs: dict[str, StatementProgram] = field(default_factory=dict)
    contexts: dict[str, tuple[int, ContextBuilder]] = field(default_factory=dict)  # each after its priority
    insert_rows: dict[str, Callable[[], list[dict[str, Any]]]] = field(default_factory=dict)


def binder_options(config: Config) -> Options:
    """Return the settings of `config` that the binder needs."""
    return Options(
        default_selector=config.default_stream_selector,
        integer_division=config.integer_division,
        microseconds=config.microseconds,
        time_zone=config.time_zone,
    )


@rejecting_deep_nesting()
def bind_text(epl: str, catalog: Catalog, config: Config, names: Collection[str]) -> p.ModulePlan:
    """Parse, bind and rewrite `epl`, which may be in another dialect. Errors: ParseError, BindError."""
    return rewrite(translate(epl, catalog, names, binder_options(config)))


def _scope_factory(statement: p.StatementPlan, scope_in: ScopeFactory) -> ScopeFactory:
    """Return `scope_in`, or the factory of scopes with the rules of the dialect of `statement`."""
    if isinstance(statement, p.CycleStatement):
        return partial(sql_scope, scope_in)
    if isinstance(statement, p.SelectStatement) and statement.lots:
        return partial(activation_scope, scope_in)
    return scope_in


@rejecting_deep_nesting()
def compile_plan(
    plan: p.ModulePlan,
    catalog: Catalog,
    clock: Clock,
    config: Config,
    functions: Mapping[str, Callable[..., Any]],
    variables: Variables,
    *,
    evaluate: bool = True,
) -> CompiledModule:
    """Compile `plan`; variables get their initial values if `evaluate` is set, else null.

    The expressions of initial values are evaluated, also if a later statement of the module is refused. Errors:
    BindError if a statement is refused or an initial value cannot be computed.
    """
    declared = catalog.variables.keys()  # `variables` may have more: those of statements that are to be replaced
    cells = dict(variables) if variables.keys() == declared else {name: variables[name] for name in declared}
    scope_in = partial(expression_scope, clock, config, dict(functions), cells)
    module = CompiledModule(plan, catalog.copy(), cells)
    compilation = _Compilation(module, scope_in, config.iterable_unbound, evaluate)
    for kind, name in plan.requires:
        if kind == "event type" and name in PREDEFINED:
            module.catalog.event_types.setdefault(name, PREDEFINED[name])
    for statement in plan.statements:
        with _refusals(statement, plan):
            compilation.add(statement)
    return module


@dataclass(slots=True)
class _Compilation:
    """Compiles the statements of a module in order: each sees the definitions of those before it.

    `scope_in` makes the scope of expressions that are written into a source. Statements without a window iterate over
    their groups if `iterable_unbound` is set; variables get their initial values if `evaluate` is.
    """

    module: CompiledModule
    scope_in: ScopeFactory
    iterable_unbound: bool
    evaluate: bool

    def add(self, statement: p.StatementPlan) -> None:
        """Compile one more statement. Errors: Refusal if the engine cannot run it; BindError as above."""
        scope_in = _scope_factory(statement, self.scope_in)
        inner = compile_subqueries(statement, scope_in)
        add_definitions(statement, self.module.catalog)
        program = self._program(statement, scope_with_subqueries(inner, scope_in), inner)
        if program is not None:
            self.module.programs[statement.name] = program
            if isinstance(statement, p.StreamStatement) and any(insert.precedence for insert in statement.inserts):
                exprs = [() if i.precedence is None else (i.precedence,) for i in statement.inserts]
                program.precedences = tuple(compile_delivery_key(e, scope_in) for e in exprs)
            if inner:
                program.subqueries = inner

    def _program(
        self, statement: p.StatementPlan, scope_in: ScopeFactory, inner: tuple[StatementProgram, ...]
    ) -> StatementProgram | None:
        match statement:
            case p.SelectStatement():
                return self._select(statement, scope_in, inner)
            case p.OnSetStatement():
                return compile_trigger(compile_on_set, statement, scope_in)
            case p.SplitStatement():
                return compile_trigger(compile_split, statement, scope_in)
            case p.MergeStatement():
                return compile_trigger(compile_merge, statement, scope_in)
            case p.UpdateStatement():
                return compile_update(statement, scope_in)
            case p.CycleStatement():
                return compile_cycles(statement, scope_in, inner)
            case p.CreateTableStatement():
                return compile_create_table(statement, scope_in)
            case p.CreateVariableStatement(variable=variable):
                cell = self.module.variables[variable.name] = self._variable(statement)
                return compile_create_variable(statement, scope_in, cell)
            case p.CreateContextStatement(spec=spec):
                context = partial(FlatKeyedContext, statement, compile_locators(spec, scope_in))
                self.module.contexts[statement.name] = statement.priority, context
            case p.CreateContextTreeStatement(levels=levels):
                tree = partial(TreeContext, statement, compile_levels(levels, scope_in))
                self.module.contexts[statement.name] = statement.priority, tree
            case p.InsertRows():
                self.module.insert_rows[statement.name] = compile_insert_rows(statement, scope_in)
            case _:
                assert isinstance(statement, _DEFINITIONS), statement
        return None

    def _select(
        self, statement: p.SelectStatement, scope_in: ScopeFactory, inner: tuple[StatementProgram, ...]
    ) -> StatementProgram:
        program = compile_select(
            statement,
            scope_in,
            all_properties=_properties(statement, self.module.catalog),
            iterable_unbound=self.iterable_unbound or statement.iterable_unbound or statement.source.without_from,
            subqueries=inner,
        )
        # The clauses below are of EPL, and have no subqueries.
        if statement.delivery_key is not None:
            program.delivery_key = compile_delivery_key(statement.delivery_key, self.scope_in)
        if statement.context is not None and statement.join is None:
            program.correlation = correlation_keys(statement.source.filter, self.scope_in)
        return program

    def _variable(self, statement: p.CreateVariableStatement) -> RuntimeVariable:
        name, type_ = statement.variable.name, statement.variable.type
        if statement.context is not None:
            return ContextVariable(name, type_, None)
        initial = _initial(statement, self.scope_in, self.module.plan) if self.evaluate else None
        return RuntimeVariable(name, type_, initial)


def _properties(statement: p.SelectStatement, catalog: Catalog) -> tuple[str, ...]:
    source = statement.source
    if source.without_from:
        return ()
    event_type = catalog.event_types[source.event_type] if source.pattern is None else source.pattern.match_type
    return tuple(event_type.properties)


def _initial(statement: p.CreateVariableStatement, scope_in: ScopeFactory, plan: p.ModulePlan) -> Any:
    if statement.initial is None:
        return None
    compute = compile_initial_value(statement.initial, scope_in)
    try:
        return deep_copied(compute())  # an array of its own, also if the module is deployed again
    except Exception as failure:
        message = f"the initial value of `{statement.variable.name}` failed: {exception_text(failure)}"
        raise BindError((Diagnostic("initial-value", message, statement.initial.span),), plan.source) from failure


def expression_scope(
    clock: Clock,
    config: Config,
    functions: Mapping[str, Callable[..., Any]],
    variables: Variables,
    source: SourceWriter,
) -> CodeScope:
    """Return the scope of all expressions written into `source`: the clock, the settings, functions and variables."""
    source.bind("clock", clock)
    return _NO_SCOPE.at(
        source=source,
        integer_division=config.integer_division,
        division_by_zero_null=config.division_by_zero_null,
        self_subselect_preeval=config.self_subselect_preeval,
        compensated_sums=config.compensated_sums,
        second=config.second,
        zone=config.time_zone,
        user_functions=functions,
        variables=variables,
    )


@contextmanager
def _refusals(statement: p.StatementPlan, plan: p.ModulePlan) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        diagnostic = Diagnostic("not-supported-yet", f"not supported yet: {refusal.reason}", statement.span)
        raise BindError((diagnostic,), plan.source) from refusal
