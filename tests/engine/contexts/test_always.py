"""Cases of the corpus with all their statements in a context whose one partition is always there: the same reactions.

``CEPBOOK_CUTS=all`` runs every case in every such context; without it some are, others at each run (as in
`tests.engine.snapshot.test_corpus`).
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cepbook.lang.syntax.reader.lexer import tokenize
from cepbook.testing.engines import RowsEngine
from cepbook.testing.runner import CaseResult, run
from cepbook.testing.scenario import (
    ConfigFence,
    InvalidFence,
    ModuleFence,
    QueryFence,
    ScenarioCase,
    TraceFence,
    case_sections,
    parse_case,
)
from cepbook.testing.sweep import scenario_files
from cepbook.testing.trace import Failure, Reaction, RunQuery

pytestmark = pytest.mark.histories

CORPUS = Path(__file__).parents[2] / "corpus"
GIVEN = os.environ.get("CEPBOOK_CUTS", "")
SEED = int(GIVEN) if GIVEN.isdigit() else random.SystemRandom().randrange(1_000_000)
FEW = 60
ALWAYS = (
    "start @now",
    "start @now end after 100000 days",
    "initiated @now and after 100000 days",
    "context A start @now, context B initiated @now and pattern [timer:interval(80000 days)]",
)
# What declares, and what a context does not take
OUTSIDE = re.compile(r"(update|module|import|uses)\b|create\s+(\w+\s+)?(schema|expression|variable)\b", re.I)
ANNOTATIONS = re.compile(r"(@\s*\w+\s*(\([^)]*\))?\s*)*")
APART = {
    "pattern_variable_set_by_pattern",  # within a context statements are asked in turn: a filter sees what was just set
    "su_update_with_subquery_and_variable",  # an update istream looks into what is in no context
    # within a context a statement delivers once for an event, however many others change its rows
    "merge_of_many_rows",
    "old_values_and_new",
}


def inside(epl: str) -> str:
    """The module with its statements in the context."""
    found, at = [], 0
    for piece in tokenize(epl)[0]:
        begin = piece.tokens[0].start if piece.tokens else len(epl)
        text = epl[begin:]
        if not OUTSIDE.match(text[ANNOTATIONS.match(text).end() :] if ANNOTATIONS.match(text) else text):
            found += epl[at:begin], "context Always " if piece.tokens else ""
            at = begin
    return "".join([*found, epl[at:]])


def cases() -> list[ScenarioCase]:
    """Those whose statements may all stand in one context."""
    sections = [(path, each) for path in scenario_files(CORPUS) for each in case_sections(path.read_text("utf-8"))]
    found = [parse_case(each, path) for path, each in sections]
    return [each for each in found if each.name not in APART and _fits(each)]


def _fits(case: ScenarioCase) -> bool:
    modules = [each.epl for each in case.fences if isinstance(each, ModuleFence)]
    queries = [
        step.stimulus.epl
        for each in case.fences if isinstance(each, TraceFence)
        for step in each.steps if isinstance(step.stimulus, RunQuery)
    ]  # fmt: skip
    alone = not any(isinstance(each, QueryFence) for each in case.fences)
    plain = not re.search(r"\bcontext\b|@drop", " ".join(modules), re.I)
    return alone and plain and bool(modules) and not any(re.search(r"\(\s*select|\[", each) for each in queries)


def ran(case: ScenarioCase, context: str = "") -> CaseResult:
    """A run with priorities, in which statements take events in the order of deployment."""
    fences = [each for each in case.fences if not isinstance(each, InvalidFence)]
    if context:
        first = next(number for number, each in enumerate(fences) if not isinstance(each, ConfigFence))
        fences = [replace(each, epl=inside(each.epl)) if isinstance(each, ModuleFence) else each for each in fences]
        fences.insert(first, ModuleFence(f"create context Always {context}", "always", case.line))

    def opened(start: int, options: Mapping[str, Any]) -> RowsEngine:
        return RowsEngine(start, {**options, "prioritized": True})

    return run(replace(case, fences=tuple(fences)), opened)


def difference(case: ScenarioCase, context: str) -> str:
    plain, within = ran(case), ran(case, context)
    if plain.broken or plain.refusals:
        return ""
    if within.broken or within.refusals:
        return f"{case.name}, {context}: {within.broken or within.refusals}"
    for one, other in zip(plain.steps, within.steps, strict=True):
        if _told(one.actual) != _told(other.actual):
            return f"{case.name}, {context}, line {one.step.line}:\n  {one.actual}\n  {other.actual}"
    return ""


def _told(reactions: Sequence[Reaction]) -> list[str]:
    """Deliveries in order; behind them who failed: messages show the text, which is another."""
    failed = sorted(each.what for each in reactions if isinstance(each, Failure))
    return [*(repr(each) for each in reactions if not isinstance(each, Failure)), *failed]


def test_a_partition_that_is_always_there_changes_nothing() -> None:
    every = [(case, context) for case in cases() for context in ALWAYS]
    assert len(every) > 4000
    if GIVEN != "all":
        print(f"seed {SEED}")
        every = random.Random(SEED).sample(every, FEW)
    wrong = [told for case, context in every if (told := difference(case, context))]
    assert not wrong, "\n".join([f"seed {SEED}", *wrong])
