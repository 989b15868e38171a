"""What each stage of the compiler makes of a statement, as text: `Workbench.explain`."""

from __future__ import annotations

from functools import partial

from cepbook.engine.clock import Clock
from cepbook.engine.compiler import compile_plan
from cepbook.engine.runtime import Runtime
from cepbook.lang import explain as stages
from cepbook.lang.bind import Options
from cepbook.lang.plan import ModulePlan, SelectStatement
from cepbook.spark.placement import pipeline, place


def explain(runtime: Runtime, name_or_epl: str, stage: str) -> str:
    """`stage` of the statement `name_or_epl`, if there is one of that name, else of that EPL text.

    Raises UsageError for an unknown stage, ParseError and BindError as compiling the text does.
    """
    statement = runtime.statements.get(name_or_epl)
    if statement is not None and stage == "python":
        return str(statement.program.text)
    text = name_or_epl if statement is None else statement.epl
    options = Options(
        default_selector=runtime.config.default_stream_selector,
        integer_division=runtime.config.integer_division,
        microseconds=runtime.config.microseconds,
    )
    printers = {"python": partial(_python, runtime), "coverage": partial(_coverage, runtime)}
    return stages.show(stage, text, runtime.catalog, printers=printers, options=options)


def _python(runtime: Runtime, plan: ModulePlan) -> str:
    compiled = compile_plan(plan, runtime.catalog, Clock(runtime.now), runtime.config, runtime.functions)
    return "\n\n".join(program.text for program in compiled.programs.values())


def _coverage(runtime: Runtime, plan: ModulePlan) -> str:
    """One block per select statement: which engine runs it, how, and why."""
    compiled = compile_plan(plan, runtime.catalog, Clock(runtime.now), runtime.config, runtime.functions)
    deployed = [s for d in runtime.deployments.values() for s in d.plan.statements]
    own = {s.name for s in plan.statements}
    known = [*(s for s in deployed if s.name not in own), *plan.statements]
    lines = []
    for statement in plan.statements:
        if isinstance(statement, SelectStatement):
            line = pipeline(statement.name, known, compiled.catalog, compiled.catalog.event_types)
            placement = place(line, compiled.catalog)
            lines += [
                statement.name,
                "  rows     runs it: generated Python in this process",
                "  columns  not used: there is no vectorised engine yet",
                f"  spark    {placement.path}: {placement.reason}",
            ]
    return "\n".join(lines) or "no select statement"
