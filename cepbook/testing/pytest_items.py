"""Scenario files and their cases as pytest collectors and items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cepbook.testing import record, report
from cepbook.testing.engines import ENGINES
from cepbook.testing.markdown import Section
from cepbook.testing.runner import CaseResult, Outcome, run
from cepbook.testing.scenario import case_sections, parse_case, refuse_headless_case
from cepbook.testing.trace import ScenarioError

ENGINE = "rows"

_EDITS = pytest.StashKey[dict[Path, list[record.LineEdit]]]()


class CaseFailed(Exception):
    """A case differs from its file. The message is the report."""


class ScenarioFile(pytest.File):
    """A Markdown file with one item per case. Cases of the same name are numbered."""

    def collect(self) -> Iterable[pytest.Item]:
        seen: Counter[str] = Counter()
        source = self.path.read_text(encoding="utf-8")
        try:
            refuse_headless_case(source, self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        for section in case_sections(source):
            seen[section.title] += 1
            count = seen[section.title]
            name = section.title if count == 1 else f"{section.title} ({count})"
            yield ScenarioItem.from_parent(self, name=name, section=section)


class ScenarioItem(pytest.Item):
    """One case. It is parsed when it runs, so that a malformed case fails alone."""

    def __init__(self, *, section: Section, **rest: Any) -> None:
        super().__init__(**rest)
        self.section = section

    def runtest(self) -> None:
        result = run(parse_case(self.section, self.path), ENGINES[ENGINE], ENGINE)
        if self.config.getoption("record") and self._record(result):
            return
        if result.outcome is Outcome.FAILED or result.disagreement is not None:
            raise CaseFailed(report.failure_report(result, self._origin()))
        declared = result.case.refusal_of(ENGINE)
        if declared is not None:
            # With the location of the case; with that of this line, pytest -rs would fold all cases into one.
            raise pytest.skip.Exception(f"refused by the {ENGINE} engine: {declared.reason}", _use_item_location=True)

    def _record(self, result: CaseResult) -> bool:
        """Store the changes of the file. Return True if the case is right after them."""
        edits = record.edits(result)
        if edits:
            _edits(self.config).setdefault(self.path, []).extend(edits)
        return bool(edits) and record.recorded_all(result)

    def _origin(self) -> str:
        try:
            return str(self.path.relative_to(self.config.rootpath))
        except ValueError:
            return str(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report; a Python traceback would only show the runner."""
        if isinstance(excinfo.value, CaseFailed | ScenarioError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.section.line - 1, self.name


def _edits(config: pytest.Config) -> dict[Path, list[record.LineEdit]]:
    return config.stash.setdefault(_EDITS, {})


def write_recorded(config: pytest.Config) -> Iterator[Path]:
    """Write the changes that ``--record`` stored, once, and return the changed files."""
    edits_by_path = _edits(config)
    while edits_by_path:
        path, edits = edits_by_path.popitem()
        record.rewrite(path, edits)
        yield path
