"""What happened in a workbench as a scenario file that passes: its modules, its latest events, and what they cause.

The statements are deployed at the beginning, whenever they were deployed in the workbench; the reactions are those of
the engine to just this file. Named statements are observed (``@name``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from cepbook.engine.config import Config
from cepbook.errors import UsageError
from cepbook.lang.dialects import epl
from cepbook.lang.dialects.parameters import uses
from cepbook.lang.text import EPL, dialect_of, settings_of
from cepbook.session import Workbench
from cepbook.session.arrivals import Happening
from cepbook.testing import record, report
from cepbook.testing.engines import ENGINES
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.values import format_name, format_row, format_value

ENGINE = "rows"
_HERE = Path("recorded.md")


def scenario_of(workbench: Workbench, title: str) -> str:
    """The text of a scenario file with one case called `title`.

    Raises UsageError for what a file cannot have: Python functions, parameters, settings of a dialect, and when the
    past is not known from the beginning on.
    """
    source = "\n".join(_text(workbench, title))
    (section,) = case_sections(source)
    source = record.apply(source, record.edits(run(parse_case(section, _HERE), ENGINES[ENGINE], ENGINE)))
    (section,) = case_sections(source)
    result = run(parse_case(section, _HERE), ENGINES[ENGINE], ENGINE)
    if result.outcome is not Outcome.PASSED:
        raise UsageError(f"this cannot be recorded: {report.first_difference(result)}")
    return source


def _text(workbench: Workbench, title: str) -> Iterator[str]:
    runtime = workbench.runtime
    past = workbench.past()
    if not past.complete:
        raise UsageError(
            "this cannot be recorded: events from the beginning are not known any more\n  hint: %epl rewind"
        )
    if runtime.functions:
        names = ", ".join(sorted(runtime.functions))
        raise UsageError(f"this cannot be recorded: a scenario file knows no Python functions ({names})")
    yield from (f"## {title}", "", "```config", f"start = {past.start}", *_config(runtime.config), "```", "")
    of_modules = {name for deployment in runtime.deployments.values() for name in deployment.event_types}
    defined = [of for name, of in runtime.catalog.event_types.items() if name not in of_modules]
    if defined:
        yield "```epl types"
        for of in defined:
            columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in of.properties.items())
            inherits = f" inherits {', '.join(of.supertypes)}" if of.supertypes else ""
            yield f"create schema {of.name}({columns}){inherits};"
        yield from ("```", "")
    for number, deployment in enumerate(runtime.deployments.values(), 1):
        yield from _module(deployment.source, number)
    yield "```trace"
    now = past.start
    happenings = sorted((*past.happenings, *past.assignments), key=attrgetter("place"))
    for _, several in groupby(happenings, key=lambda each: each.place[0] if each.lot else each.place):
        lot = list(several)
        time = max(now, lot[0].time)
        if time > now:
            now = time
            yield f"@{now}{' stepping' if lot[0].stepping else ''}"
        line = " ;; ".join(_event(each) for each in lot if each.type_name is not None)
        if line:
            yield f"together {line}" if lot[0].lot else line
        elif lot[0].variable is not None:
            yield f"set {lot[0].variable} = {format_value(lot[0].value)}"
    if past.now > now:
        yield f"@{past.now}"
    yield from ("```", "")


def _config(config: Config) -> Iterator[str]:
    """The settings of the engine that are not the usual ones."""
    for each in fields(Config):
        value = getattr(config, each.name)
        if value != each.default:
            first, *rest = each.name.split("_")
            yield f"{first}{''.join(word.title() for word in rest)} = {format_value(value)}"


def _module(source: str, number: int) -> Iterator[str]:
    dialect, settings = dialect_of(source), dict(settings_of(source))
    if dialect == EPL:
        if settings.get("parameters") or uses(epl.parse(source)):
            raise UsageError("this cannot be recorded: a scenario file has no values for parameters (`:name`)")
        head = f"```epl{'' if number == 1 else f' module-{number}'}"
    else:
        name = settings.pop("name", None)
        if settings or name is None:
            raise UsageError(f"this cannot be recorded: a scenario file has no settings of {dialect}")
        head = f"```{dialect} {name}"
    yield from (head, source.strip("\n"), "```", "")


def _event(happening: Happening) -> str:
    given = {name: value for name, value in happening.event.items() if value is not None}
    return (
        f"{format_name(happening.type_name or '')} {format_row(given)}"
        if given
        else format_name(happening.type_name or "")
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
