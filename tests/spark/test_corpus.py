"""The corpus as Spark's tasks would run it, without Spark: by key, row by row, ordered; the rows are the recorded ones.

Each case that passes in the kernel is replayed by the task's function, its events divided as the placement says. Few
cases have tasks that work by columns: `plan/test_vectorized_windows.py` has more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.sweep import scenario_files
from tests.random_cases import part
from tests.spark.tasks import Recorded, differences

pytestmark = pytest.mark.histories

CORPUS = Path(__file__).parents[1] / "corpus"
PARTS = 6  # of the corpus, for processes that take turns


@pytest.mark.parametrize("number", part(range(PARTS)))
def test_tasks_deliver_what_was_recorded(number: int) -> None:
    cases = [(path, s) for path in scenario_files(CORPUS) for s in case_sections(path.read_text("utf-8"))]
    wrong, paths = [], Counter[str]()
    for path, section in cases[number::PARTS]:
        engines: list[Recorded] = []

        def opened(start: int, options: Mapping[str, Any], engines: list[Recorded] = engines) -> Recorded:
            engines.append(Recorded(start, options))
            return engines[-1]

        result = run(parse_case(section, path), opened)
        if result.outcome is not Outcome.PASSED or len(engines) != 1 or engines[0].odd or not engines[0].events:
            paths["other cases"] += 1
            continue
        found, ran = differences(engines[0])
        paths += ran
        wrong += [f"{path.name}: {section.title}: {text}" for text in found]
    print(dict(paths))
    assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong])
    assert paths["by key"] and paths["ordered"] and paths["dropped"]
