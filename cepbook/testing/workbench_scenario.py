"""The past of a workbench as a scenario file that passes: its modules, its events, and their reactions.

Modules are at the position of their deployment, queries that changed rows at that of their execution. Undeployed
modules are left out. The reactions are those of the engine to this very file. Named statements (``@name``) are
observed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from cepbook.engine.config import Config
from cepbook.errors import UsageError
from cepbook.lang.bind.substitution import parameter_uses
from cepbook.lang.syntax.reader import parser
from cepbook.lang.syntax.reader.lexer import quoted_name, tokenize
from cepbook.lang.syntax.source_text import EPL, dialect_of, settings_of
from cepbook.session import Workbench
from cepbook.session.history.event_log import HORIZON, LogEntry
from cepbook.session.history.rerun_workbench import RecordedHistory
from cepbook.testing import record, report
from cepbook.testing.engines import ENGINES
from cepbook.testing.runner import CaseResult, Outcome, run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.trace import StatementDelivery
from cepbook.testing.values import format_name, format_row, format_value

ENGINE = "rows"
_HERE = Path("recorded.md")


@dataclass(frozen=True, slots=True)
class WorkbenchScenario:
    """A scenario file of one case, and the statements that deliver other rows in it than they did."""

    text: str
    otherwise: tuple[str, ...]


def scenario_of(workbench: Workbench, title: str) -> WorkbenchScenario:
    """Return the past of a workbench as a scenario file with one case called `title`.

    Errors: UsageError for anything that a file cannot hold (Python functions, parameters, settings of a dialect, manual
    actions other than queries), and if events from the beginning are missing.
    """
    source = "\n".join(_text(workbench, title))
    (section,) = case_sections(source)
    source = record.apply(source, record.edits(run(parse_case(section, _HERE), ENGINES[ENGINE], ENGINE)))
    (section,) = case_sections(source)
    result = run(parse_case(section, _HERE), ENGINES[ENGINE], ENGINE)
    if result.outcome is not Outcome.PASSED:
        raise UsageError(f"this cannot be recorded: {report.first_difference(result)}")
    return WorkbenchScenario(source, tuple(_otherwise(workbench, result)))


def _otherwise(workbench: Workbench, result: CaseResult) -> Iterator[str]:
    """Return the observed statements with complete feeds whose deliveries in the case have other row counts."""
    row_counts: dict[str, list[tuple[int, int]]] = {}
    for step in result.steps:
        for reaction in step.actual:
            if isinstance(reaction, StatementDelivery):
                row_counts.setdefault(reaction.statement, []).append((len(reaction.insert), len(reaction.remove)))
    for name, statement in workbench.runtime.statements.items():
        source = workbench.runtime.deployments[statement.deployment_id].source
        observed = statement.plan.named and settings_of(source).get("name", name) == name
        if name not in row_counts and not observed:
            continue
        deltas = workbench.feed(name).snapshot()
        rows = [(len(delta.insert or ()), len(delta.remove or ())) for delta in deltas]
        if (not deltas or deltas[0].number == 0) and [counts for counts in rows if any(counts)] != row_counts.get(
            name, []
        ):
            yield name


def _text(workbench: Workbench, title: str) -> Iterator[str]:
    runtime = workbench.runtime
    past = workbench.past()
    if not past.complete:
        raise UsageError(
            f"this cannot be recorded from its beginning: {HORIZON}\n"
            "  hint: `%epl rewind`, then replay a part of the data: `cep.replay(…, limit=1000)`"
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
            columns = ", ".join(f"{quoted_name(name)} {kind}" for name, kind in of.properties.items())
            inherits = f" inherits {', '.join(map(quoted_name, of.supertypes))}" if of.supertypes else ""
            yield f"create schema {quoted_name(of.name)}({columns}){inherits};"
        yield from ("```", "")
    yield from _story(past)


def _story(past: RecordedHistory) -> Iterator[str]:
    waiting, number, now = deque(past.deployments), 0, past.start
    log_entries = sorted((*past.log_entries, *past.assignments), key=attrgetter("position"))
    trace: list[str] = []
    calls = groupby(log_entries, key=lambda entry: entry.position[0] if entry.simultaneous else entry.position)
    for _, entries in calls:
        batch = list(entries)
        while waiting and waiting[0].position < batch[0].position:
            number += 1
            yield from _fence(trace)
            yield from _module(waiting.popleft().deployment.source, number)
            trace = []
        trace += _lines(batch, now)
        now = max(now, batch[0].time)
    for deployed in waiting:
        number += 1
        yield from _fence(trace)
        yield from _module(deployed.deployment.source, number)
        trace = []
    yield from _fence([*trace, *([f"@{past.now}"] if past.now > now else ())] or [f"@{now}"])


def _fence(trace: Sequence[str]) -> Iterator[str]:
    if trace:
        yield from ("```trace", *trace, "```", "")


def _lines(entries: Sequence[LogEntry], now: int) -> Iterator[str]:
    first = entries[0]
    line = " ;; ".join(_event(entry) for entry in entries if entry.type_name is not None)
    if first.time > now or not (line or first.variable is not None or first.manual_action is not None):
        yield f"@{max(now, first.time)}{' stepping' if first.stepping else ''}"
    if line:
        yield f"together {line}" if first.simultaneous else line
    elif first.variable is not None:
        yield f"set {first.variable} = {format_value(first.value)}"
    elif first.manual_action is not None:
        yield f"query {_one_line(first)}"


def _one_line(manual_action: LogEntry) -> str:
    if manual_action.query is None:
        what = manual_action.description
        raise UsageError(f"this cannot be recorded: {what}, which a scenario file cannot express")
    text, at = "", 0
    for token in (token for piece in tokenize(manual_action.query)[0] for token in piece.tokens):
        text += " " * (token.start > at) + manual_action.query[token.start : token.end]
        at = token.end
    return text.strip()


def _config(config: Config) -> Iterator[str]:
    for setting in fields(Config):
        value = getattr(config, setting.name)
        if value != setting.default:
            first, *rest = setting.name.split("_")
            yield f"{first}{''.join(word.title() for word in rest)} = {format_value(value)}"


def _module(source: str, number: int) -> Iterator[str]:
    dialect, settings = dialect_of(source), dict(settings_of(source))
    if dialect == EPL:
        if settings.get("parameters") or parameter_uses(parser.parse_epl(source)):
            raise UsageError("this cannot be recorded: a scenario file has no values for parameters (`:name`)")
        head = f"```epl{'' if number == 1 else f' module-{number}'}"
    else:
        name = settings.pop("name", None)
        if settings or name is None:
            raise UsageError(f"this cannot be recorded: a scenario file has no settings of {dialect}")
        head = f"```{dialect} {name}"
    yield from (head, source.strip("\n"), "```", "")


def _event(log_entry: LogEntry) -> str:
    values = {name: value for name, value in log_entry.event.items() if value is not None}
    return f"{format_name(log_entry.type_name or '')} {format_row(values) if values else ''}".rstrip()
