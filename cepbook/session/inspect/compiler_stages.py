"""The output of each compiler stage for a statement, as text: `Workbench.explain`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from cepbook.dialects import stages
from cepbook.engine.codegen.program import StatementProgram, explain_program
from cepbook.engine.deploy.compiler import CompiledModule, binder_options, compile_plan
from cepbook.engine.deploy.deployments import catalog_without
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import Clock
from cepbook.engine.vectorized.kernel_library import missing_reason
from cepbook.engine.vectorized.stream_forms import EnrichmentForm, JoinForm
from cepbook.lang.explain.expressions import display_names
from cepbook.lang.plan.dependencies import StatementDependencies, dependencies_of
from cepbook.lang.plan.nodes import CycleStatement, ModulePlan
from cepbook.lang.syntax.source_text import EPL, dialect_of
from cepbook.spark.plan.placement import bypass_engine, event_time_properties, place

_LOCALS = re.compile(r"\b[pqab]\d+(?:_\d+)?\b")
_NUMBERED = re.compile(r"[cn]\d+")


def explain_stage(runtime: Runtime, name_or_epl: str, stage: str) -> str:
    """Print `stage` for the statement `name_or_epl` if there is one of that name, else for that EPL text.

    Raises UsageError for an unknown stage, ParseError and BindError as compiling the text does.
    """
    statement = runtime.statements.get(name_or_epl)
    if statement is not None and stage == "python":
        return _source(statement.program)
    text, only = name_or_epl, None
    catalog = runtime.catalog.copy()
    if statement is not None:
        text = statement.epl
        deployment = runtime.deployments[statement.deployment_id]
        if dialect_of(deployment.source) != EPL:  # a text of another dialect only has a meaning as a whole
            text, only, catalog = deployment.source, statement.name, catalog_without(catalog, [deployment])
    printers: dict[str, Callable[[ModulePlan], str]] = {
        "steps": partial(_steps, runtime),
        "python": lambda plan: "\n\n".join(map(_source, _compiled(runtime, plan).programs.values())),
        "coverage": partial(_coverage, runtime),
    }
    if statement is not None and statement.kind == "create variable":  # its text declares variables that exist already
        for name in statement.output_type.properties:
            del catalog.variables[name]
    if statement is not None and statement.owned is not None:
        catalog.event_types.pop(statement.owned.name, None)  # for another dialect they are gone already
        catalog.stores.pop(statement.owned.name, None)
    with display_names(second=runtime.config.second):
        return stages.show_stage(
            stage, text, catalog, printers=printers, options=binder_options(runtime.config), only=only
        )


def _steps(runtime: Runtime, plan: ModulePlan) -> str:
    programs = _compiled(runtime, plan).programs
    return "\n\n".join(explain_program(name, program) for name, program in programs.items()) or "no statement that runs"


def _compiled(runtime: Runtime, plan: ModulePlan) -> CompiledModule:
    clock = Clock(runtime.now)
    return compile_plan(plan, runtime.catalog, clock, runtime.config, runtime.functions, runtime.variables)


def _source(program: StatementProgram) -> str:
    columns = "dicts" if program.row_columns is None else f"tuples of {', '.join(program.row_columns)}"
    if program.steps.lookup is not None:
        columns = "made when they are asked for"
    read = set(_LOCALS.findall(program.text))
    names = [f"#   {name} = {what}" for name, what in program.legend.items() if name in read]
    constants = [f"#   {name} = {value!r}" for name, value in program.constants.items() if _NUMBERED.fullmatch(name)]
    head = [f"# rows are {columns}"]
    if names:
        head += ["# locals: p… of the arriving event, q… of a kept one, a… and b… the cells of aggregates:", *names]
    if constants:
        head += ["# constants (c…) and names of properties (n…), bound by reference:", *constants]
    inner = [] if program.select is None else [f"# the select\n{_source(program.select)}"]
    inner += [f"# subquery {number}\n{_source(subprogram)}" for number, subprogram in enumerate(program.subqueries)]
    return "\n".join((*head, "", program.text, *inner))


def _coverage(runtime: Runtime, plan: ModulePlan) -> str:
    compiled = _compiled(runtime, plan)
    deployed = [s for d in runtime.deployments.values() for s in d.plan.statements]
    own = {s.name for s in plan.statements}
    known = [*(s for s in deployed if s.name not in own), *plan.statements]
    lines = []
    for statement in plan.statements:
        if isinstance(statement, CycleStatement):
            lines += [
                statement.name,
                "  rows     runs it: windows and relations are objects, conditions and the select are generated Python",
                "  replay   event by event: each event may have cycles of its own",
                "  spark    not yet: its cycles follow all events and the clock",
            ]
        if statement.projection is not None:
            deps = dependencies_of(statement.name, known, compiled.catalog, compiled.catalog.event_types)
            types = compiled.catalog.event_types
            clocks = event_time_properties({name: types[name].time_property for name in deps.inputs}, compiled.catalog)
            placed = place(deps, compiled.catalog)
            placement = bypass_engine(placed, deps, compiled.catalog, runtime.config, clocks)
            lines += [
                statement.name,
                "  rows     runs it: generated Python in this process",
                f"  replay   {_replayed(runtime, deps)}",
                f"  spark    {placement.path}: {placement.reason}",
            ]
    return "\n".join(lines) or "no select statement"


def _replayed(runtime: Runtime, deps: StatementDependencies) -> str:
    if deps.target not in runtime.statements:
        return "decided when it is deployed, by all statements that it is connected with"
    derived = {insert.target for s in deps.readers for insert in s.inserts}
    batch = runtime.batch([name for name in deps.inputs if name not in derived] or deps.inputs)
    if deps.target in batch.reasons:
        return f"event by event: {batch.reasons[deps.target]}"
    if deps.target in batch.merged and batch.in_stretches:
        return f"in batches while no partition begins or ends, otherwise event after event: {batch.merged[deps.target]}"
    if deps.target in batch.merged:
        return f"in batches, event after event through all that it is connected with: {batch.merged[deps.target]}"
    statement = runtime.statement(deps.target)
    if statement.pattern_alone is not None:
        chain = statement.pattern_alone.chain
        if isinstance(chain, str):
            return f"in batches: its pattern gets the events one by one, because {chain}"
        condition = ", unless the clock leaps" if chain.timed else ""
        return f"in batches: arrays follow the partial matches that begin and end in one{condition}"
    recognize = statement.program.recognize
    if recognize is not None and statement.context is None:
        rows = recognize.arrays()
        if isinstance(rows, str):
            return f"in batches: rows of `match_recognize` are processed one by one, because {rows}"
        return "in batches: arrays find the matches of `match_recognize`"
    form = statement.program.kernel_form()
    if statement.steps.needs_event_order and isinstance(form, str):
        return f"in batches: the events of its streams are processed one by one, because {form}"
    missing = missing_reason()
    if isinstance(form, EnrichmentForm) and form.aggregates and missing is not None:
        return f"in batches, its subqueries event by event: {missing}"
    if isinstance(form, JoinForm | EnrichmentForm):
        condition = ", unless the clock leaps" if form.timed else ""
        subject = "the pairs of events" if isinstance(form, JoinForm) else "what its subqueries look up"
        return f"in batches: arrays find {subject}{condition}"
    if isinstance(form, str):
        return f"in batches: the loop runs inside the generated code. There is no kernel, because {form}"
    if not form.needs_kernels:
        return "in batches: columns are passed on as arrays"
    return "in batches: compiled kernels over arrays" if missing is None else f"in batches, without kernels: {missing}"
