"""A module and a scenario of the playground as files: a notebook, and a scenario file that pytest runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cepbook.errors import UsageError
from cepbook.lang.syntax.source_text import EPL
from cepbook.playground.module_cells import fences, module_cells
from cepbook.playground.trial import run_trial, scenario_case
from cepbook.testing import record, report
from cepbook.testing.cell_reader import parse_cell
from cepbook.testing.engines import ENGINES
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import ConfigFence, ModuleFence, case_sections, parse_case
from cepbook.testing.trace import Advance, Send, Stimulus
from cepbook.testing.values import format_name, format_row, format_value

_HERE = Path("playground.md")


def notebook(module: str, scenario: str) -> str:
    """Return a notebook with the cells of the module and the scenario as a ``%%scenario`` cell."""
    cells, _ = module_cells(module)
    sources = ["%load_ext cepbook"]
    sources += [f"{cell.head or '%%epl'}\n{cell.text}" for cell in cells]
    if scenario.strip():
        sources.append(f"%%scenario\n{scenario.strip()}")
    return json.dumps(
        {
            "cells": [_code_cell(number, source) for number, source in enumerate(sources)],
            "metadata": {
                "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
        ensure_ascii=False,
    )


def _code_cell(number: int, source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    head: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": f"cell-{number}", "metadata": {}}
    return {**head, "outputs": [], "source": lines}


def scenario_file(module: str, scenario: str) -> str:
    """Return a scenario file with the reactions that the engine has. `cepbook test` and pytest run it.

    Raises UsageError for a module or a scenario that does not run.
    """
    trial = run_trial(module, scenario)
    if trial.problems:
        raise UsageError(trial.problems[0].text)
    source = "\n".join(_lines(module, scenario))
    (section,) = case_sections(source)
    result = run(parse_case(section, _HERE), ENGINES["rows"])
    source = record.apply(source, record.edits(result))
    (section,) = case_sections(source)
    result = run(parse_case(section, _HERE), ENGINES["rows"])
    if result.outcome is not Outcome.PASSED:
        raise UsageError(f"this cannot be recorded: {report.first_difference(result)}")
    return source


def _lines(module: str, scenario: str) -> Iterator[str]:
    cells, _ = module_cells(module)
    steps, _ = parse_cell(scenario, 0)
    yield from ("# From the playground", "", "## scenario", "")
    settings = [s for f in scenario_case(module, steps).fences if isinstance(f, ConfigFence) for s in f.settings]
    yield from ("```config", *(f"{s.key} = {format_value(s.value)}" for s in settings), "```", "")
    modules = 0
    for cell, fence in zip(cells, fences(cells), strict=True):
        if isinstance(fence, ModuleFence):
            modules += 1
            yield f"```{EPL}" if modules == 1 else f"```{EPL} {fence.id}"
        else:
            yield f"```{fence.dialect} {fence.name}"
        yield from (cell.text, "```", "")
    yield from ("```trace", *(_stimulus(line.step.stimulus, line.step.text) for line in steps), "```", "")


def _stimulus(stimulus: Stimulus, text: str) -> str:
    match stimulus:
        case Send(name, event):
            return f"{format_name(name)} {format_row(event) if event else ''}".rstrip()
        case Advance(time, stepping):
            return f"@{time}{' stepping' if stepping else ''}"
    return text.strip()
