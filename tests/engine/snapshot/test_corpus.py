"""Traces of the corpus, cut, saved, loaded by a fresh runtime and continued: the same reactions. Context partitions by
themselves likewise. The quick tests cut the longest trace of each file about state.

``CEPBOOK_CUTS=all`` cuts every trace after every step; without it some traces are, others at each run. The seed is
shown when a test fails; ``CEPBOOK_CUTS=SEED`` runs the same ones again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cepbook.testing import report
from cepbook.testing.markdown import Section
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.sweep import scenario_files
from tests.engine.snapshot.saving import PartingEngine, SavingEngine

CORPUS = Path(__file__).parents[2] / "corpus"
GIVEN = os.environ.get("CEPBOOK_CUTS", "")
SEED = int(GIVEN) if GIVEN.isdigit() else random.SystemRandom().randrange(1_000_000)
FEW = 40
STATEFUL = ("contexts", "match_recognize", "named_windows", "output", "patterns", "tables", "windows")
FILES = [path for folder in STATEFUL for path in scenario_files(CORPUS / folder)]


def cases() -> list[tuple[Path, Section]]:
    return [(path, section) for path in scenario_files(CORPUS) for section in case_sections(path.read_text("utf-8"))]


def difference(
    path: Path, section: Section, cuts: Callable[[int], bool], engine: type[SavingEngine] = SavingEngine
) -> tuple[str, int]:
    """How the case goes wrong when it is cut, nothing if it does not, and the number of cuts."""
    case = parse_case(section, path)
    engines: list[SavingEngine] = []

    def opened(start: int, options: Mapping[str, Any]) -> SavingEngine:
        engines.append(engine(start, options, cuts))
        return engines[-1]

    result = run(case, opened)
    saved = sum(engine.saved for engine in engines)
    if result.outcome is not Outcome.FAILED:
        return "", saved
    told = result.broken.traceback or result.broken.message if result.broken else report.first_difference(result)
    return f"{path.name}: {section.title}: {told}", saved


def longest(path: Path) -> Section:
    sections = case_sections(path.read_text("utf-8"))
    return max(sections, key=lambda section: sum(len(b.lines) for b in section.blocks if b.info.startswith("trace")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CORPUS).with_suffix("").as_posix())
def test_the_longest_trace_of_a_file(path: Path) -> None:
    assert difference(path, longest(path), lambda step: step % 3 == 1)[0] == ""


@pytest.mark.parametrize("path", scenario_files(CORPUS / "contexts"), ids=lambda path: path.stem)
def test_partitions_of_the_longest_trace_of_a_file(path: Path) -> None:
    assert difference(path, longest(path), lambda step: step % 3 == 1, PartingEngine)[0] == ""


@pytest.mark.histories
def test_traces_cut_saved_and_continued() -> None:
    found = cases()
    if GIVEN == "all":
        results = [difference(path, section, lambda step: True) for path, section in found]
    else:
        print(f"seed {SEED}")
        draw = random.Random(SEED)
        chosen = draw.sample(found, FEW)
        results = [difference(*each, lambda step: True) for each in chosen[: FEW // 2]]
        results += [difference(*each, lambda step: draw.random() < 0.3) for each in chosen[FEW // 2 :]]
    wrong = [text for text, _ in results if text]
    assert not wrong, "\n".join([f"seed {SEED}", *wrong])
    assert sum(saved for _, saved in results) > FEW
    print(f"{len(results)} traces, {sum(saved for _, saved in results)} cuts")


@pytest.mark.histories
def test_partitions_saved_and_put_back() -> None:
    found = [each for each in cases() if any("context" in str(block) for block in each[1].blocks)]
    if GIVEN != "all":
        print(f"seed {SEED}")
        found = random.Random(SEED).sample(found, FEW)
    results = [difference(path, section, lambda step: True, PartingEngine) for path, section in found]
    wrong = [text for text, _ in results if text]
    assert not wrong, "\n".join([f"seed {SEED}", *wrong])
    assert sum(saved for _, saved in results) > FEW
    print(f"{len(results)} traces, {sum(saved for _, saved in results)} partitions")
