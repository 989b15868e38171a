"""Hints are followed: what a hint says to write binds in the place of what was wrong.

The texts are those of the recorded diagnostics. A hint is followed if it has a replacement: "did you mean `x`?" and
"write `x`" replace the marked text, "in backticks: `x y`" puts a name of the text into backticks. Examples that begin
with a statement run against `EXAMPLE_SCHEMA`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError, Diagnostic
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA
from cepbook.testing.engines import RowsEngine
from cepbook.testing.runner import run
from cepbook.testing.scenario import case_sections, parse_case
from cepbook.testing.sweep import scenario_files
from tests.lang import recorded
from tests.lang.binding import bound

TESTS = Path(__file__).parents[1]
_INSTEAD = re.compile(r"(?:did you mean|write) `(?P<text>[^`…]+)`(?:\?|$)")
_BACKTICKS = re.compile(r"in backticks: (?P<text>`(?P<name>[^`]+)`)")
_NAMED = re.compile(r"no [^`]*`(?P<name>[^`]+)`")
_EXAMPLE = re.compile(r"such as (?P<text>(?:select|create|insert) [^…]+)$")


def followed(text: str, diagnostic: Diagnostic) -> str | None:
    """`text` as the hint wants it; None if the hint has no replacement."""
    span, hint = diagnostic.span, diagnostic.hint or ""
    marked = text[span.start : span.end]
    instead, backticks = _INSTEAD.search(hint), _BACKTICKS.search(hint)
    if backticks is not None:
        at = text.rfind(backticks["name"], 0, span.end + len(backticks["name"]))
        return None if at < 0 else text[:at] + backticks["text"] + text[at + len(backticks["name"]) :]
    if instead is None or not marked:
        return None
    word, start, end = instead["text"], span.start, span.end
    word = f"@{word}" if marked.startswith("@") and not word.startswith("@") else word
    wrong = _NAMED.search(diagnostic.message)
    call = "(" in word or " " in word
    if wrong is not None and not call and not hint.startswith("it is a variable"):  # one name in what is marked
        name = wrong["name"].strip(":@")
        at = text.find(name, max(0, start - len(name)))
        start, end = (at, at + len(name)) if start - len(name) <= at < end + 5 else (start, end)
    elif call and text[end : end + 1] == "(":
        end = text.index(")", end) + 1
    before = next((word[:n] for n in range(len(word), 0, -1) if text[:start].endswith(word[:n])), "")
    return text[: start - len(before) * before.endswith((".", ":", "@"))] + word + text[end:]


def complaint(text: str, error: CompileError, compile_: Callable[[str], object]) -> list[str]:
    """The hints of `error` that lead to another message in the same place."""
    wrong = []
    for diagnostic in error.diagnostics:
        better = followed(text, diagnostic)
        if better is None or diagnostic.code == "unknown-parameter":  # values come from Python
            continue
        COUNTS["followed"] += 1
        try:
            compile_(better)
        except CompileError as again:
            end = diagnostic.span.end + len(better) - len(text)
            if "in backticks" in (diagnostic.hint or "") and again.diagnostics[0].code != "syntax":
                continue  # the parser does not know whether there is such a name
            near = [d for d in again.diagnostics if d.span.start <= end and d.span.end >= diagnostic.span.start]
            if near or len(again.diagnostics) >= len(error.diagnostics):
                wrong.append(f"{text!r}: {diagnostic.hint}: {better!r}: {again.diagnostics[0].message}")
    return wrong


COUNTS = {"followed": 0, "examples": 0}


class FollowingEngine(RowsEngine):
    """Follows the hints of what must not compile."""

    wrong: ClassVar[list[str]] = []

    def deploy(self, epl: str, deployment_id: str) -> Any:
        try:
            return super().deploy(epl, deployment_id)
        except CompileError as error:
            if deployment_id == "invalid":
                self.wrong += complaint(epl, error, self._tried)
            raise

    def _tried(self, epl: str) -> None:
        super().deploy(epl, "followed")
        self.undeploy("followed")


def test_hints_of_the_corpus() -> None:
    FollowingEngine.wrong, COUNTS["followed"] = [], 0

    def opened(start: int, options: Mapping[str, Any]) -> RowsEngine:
        return FollowingEngine(start, options)

    for path in scenario_files(TESTS / "corpus"):
        for section in case_sections(path.read_text("utf-8")):
            if any(block.info.split()[:1] == ["invalid"] for block in section.blocks):
                run(parse_case(section, path), opened)
    assert FollowingEngine.wrong == []
    assert COUNTS["followed"] > 40


@pytest.mark.parametrize("file", sorted((TESTS / "lang").rglob("*_errors.md")), ids=lambda file: file.stem)
def test_hints_of_the_binder_and_the_parser(file: Path) -> None:
    wrong = []
    for epl, _ in recorded.cases(file):
        try:
            bound(epl.rstrip())
        except CompileError as error:
            wrong += complaint(epl.rstrip(), error, bound)
    assert wrong == []


def test_examples_in_hints_run() -> None:
    examples = set()
    for file in (TESTS / "lang").rglob("*.md"):
        lines = (line for line in file.read_text("utf-8").splitlines() if "hint: " in line)
        examples |= {match["text"] for line in lines if (match := _EXAMPLE.search(line)) is not None}
    assert len(examples) > 5
    for example in sorted(examples):
        runtime = Runtime()
        runtime.deploy(EXAMPLE_SCHEMA)
        runtime.deploy(example)
