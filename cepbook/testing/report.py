"""Reports on failing cases: the trace with expected and actual reactions side by side, and what of them counts."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.testing.cell_reader import CellStep
from cepbook.testing.runner import CaseResult, InvalidResult, StepResult, same_reactions
from cepbook.testing.trace import Reaction, ReadRows, StatementDelivery, format_reactions

CONTEXT_STEPS = 3
SHOWN_DIFFERENCES = 5
COLUMN_WIDTH = 72


def failure_report(result: CaseResult, origin: str) -> str:
    """Return the report on a failing `result`, with line numbers of the file `origin`."""
    lines = [f"{origin}:{result.case.line}: {result.case.name} (engine: {result.engine})"]
    lines += _steps(result.steps)
    for tried in result.invalid:
        if not tried.agrees:
            lines += ["", *_invalid(tried, origin)]
    if result.broken is not None:
        what = "defect of the engine" if result.broken.traceback else "cannot be deployed"
        lines += ["", f"{origin}:{result.broken.line}: {what}", textwrap.indent(result.broken.message, "  ")]
        lines += [textwrap.indent(result.broken.traceback, "  ")] if result.broken.traceback else []
    if result.disagreement is not None:
        lines += ["", result.disagreement]
    if result.case.oracle is not None and not all(step.agrees for step in result.steps):
        lines += ["", f"the expected reactions were recorded from {result.case.oracle}; --record leaves them alone"]
    return "\n".join(lines)


def first_difference(result: CaseResult) -> str:
    """Return one line on the first difference; empty if there is none."""
    for step in result.steps:
        if not step.agrees:
            return f"line {step.step.line}: {step.step.text[:60]}  {_one_line(step)}"
    for tried in result.invalid:
        if not tried.agrees:
            what = tried.problem or ("accepted" if tried.diagnostic is None else "another diagnostic than recorded")
            return f"line {tried.fence.line}: {what}: {' '.join(tried.fence.text.split())[:100]}"
    if result.broken is not None:
        return f"line {result.broken.line}: {' / '.join(result.broken.message.splitlines()[:3])}"
    return (result.disagreement or "").split("\n", 1)[0]


def _one_line(step: StepResult) -> str:
    expected, actual = _columns(step)
    for want, got in _aligned(expected, actual):
        if want != got:
            return f"expected {want or 'nothing'!s} | got {got or 'nothing'!s}"
    return ""


def _steps(steps: Sequence[StepResult]) -> Iterator[str]:
    """Return the differing steps, each with a few steps before it. Other steps are only counted."""
    differing = [index for index, step in enumerate(steps) if not step.agrees][:SHOWN_DIFFERENCES]
    visible = {near for index in differing for near in range(max(0, index - CONTEXT_STEPS), index + 1)}
    width = max((len(line) for index in visible for line in _columns(steps[index])[0]), default=0)
    width = min(max(width, len("expected")), COLUMN_WIDTH)
    skipped = 0
    for index, step in enumerate(steps[: max(visible, default=-1) + 1]):
        if index not in visible:
            skipped += 1
            continue
        if skipped:
            yield f"         ... {_counted(skipped, 'step')} as expected"
            skipped = 0
        yield from _step(step, width)
    more = sum(not step.agrees for step in steps) - len(differing)
    if more:
        yield f"         ... and {_counted(more, 'further step')} with differences"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _step(step: StepResult, width: int) -> Iterator[str]:
    note = "   (reactions to the deployment; no 'deployed' line expects them)" if step.added else ""
    yield f"{step.step.line:>6}   {step.step.text}{note}"
    expected, actual = _columns(step)
    if step.agrees:
        yield from (f"             {line}" for line in actual)
        return
    yield f"             {'expected':<{width}} | actual"
    for want, got in _aligned(expected, actual):
        mark = " " if want == got else ">"
        wants, gots = _wrapped(want, width), _wrapped(got, COLUMN_WIDTH)
        for row in range(max(len(wants), len(gots))):
            left = wants[row] if row < len(wants) else ""
            right = gots[row] if row < len(gots) else ""
            yield f"           {mark} {left:<{width}} | {right}".rstrip()


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent="      ", drop_whitespace=False) or [""]


def compared_lines(step: StepResult) -> list[tuple[str, str]]:
    """Return expected and actual reactions as pairs of lines.

    A line without counterpart is paired with an empty one.
    """
    return list(_aligned(*_columns(step)))


def _columns(step: StepResult) -> tuple[list[str], list[str]]:
    expected = format_reactions(step.step.reactions) or ["(nothing)"]
    order = {frozenset(row): tuple(row) for reaction in step.step.reactions for row in _rows(reaction)}
    actual = format_reactions([_reordered(reaction, order) for reaction in step.actual], details=True)
    return expected, actual or ["(nothing)"]


def _rows(reaction: Reaction) -> Sequence[Mapping[str, Any]]:
    match reaction:
        case ReadRows(rows):
            return rows
        case StatementDelivery(_, insert, remove):
            return (*insert, *remove)
    return ()


def _reordered(reaction: Reaction, order: Mapping[frozenset[str], Sequence[str]]) -> Reaction:
    def reorder(row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in order.get(frozenset(row), tuple(row))}

    match reaction:
        case ReadRows(rows):
            return ReadRows(tuple(map(reorder, rows)))
        case StatementDelivery(_, insert, remove):
            return replace(reaction, insert=tuple(map(reorder, insert)), remove=tuple(map(reorder, remove)))
    return reaction


def _aligned(expected: Sequence[str], actual: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return pairs of lines. A line without counterpart is paired with an empty one."""
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, expected, actual, autojunk=False).get_opcodes():
        left, right = expected[i1:i2], actual[j1:j2]
        if tag == "equal":
            yield from zip(left, right, strict=True)
            continue
        for row in range(max(len(left), len(right))):
            yield left[row] if row < len(left) else "", right[row] if row < len(right) else ""


def _invalid(tried: InvalidResult, origin: str) -> Iterator[str]:
    yield f"{origin}:{tried.fence.line}: must be refused with a diagnostic"
    yield textwrap.indent(tried.fence.text, "  ")
    if tried.diagnostic is None:
        yield f"but there was {tried.problem}" if tried.problem else "but it was accepted"
        return
    assert tried.fence.error is not None  # without a recorded error every diagnostic agrees
    yield f"the diagnostic is not the recorded one of line {tried.fence.error.line}"
    recorded = tried.fence.error.text.rstrip().splitlines()
    for line in difflib.unified_diff(recorded, tried.diagnostic.splitlines(), "recorded", "actual", lineterm="", n=99):
        yield f"  {line}"


def compared_statements(parts: Sequence[CellStep]) -> frozenset[str] | None:
    """Return the statements whose deliveries are compared, or None if the cell expects nothing."""
    expected = [reaction for step in parts for reaction in step.step.reactions]
    if not expected:
        return None
    return frozenset(r.statement for r in expected if isinstance(r, StatementDelivery))


def evaluate_step(result: StepResult, checked: frozenset[str]) -> StepResult:
    """Return the result with the reactions that count and whether they agree.

    A reading without expectations is only shown.
    """
    expects_rows = any(isinstance(r, ReadRows) for r in result.step.reactions)
    actual = tuple(
        r for r in result.actual
        if (r.statement in checked if isinstance(r, StatementDelivery) else expects_rows or not isinstance(r, ReadRows))
    )  # fmt: skip
    expected = tuple(r for r in result.step.reactions if not isinstance(r, StatementDelivery) or r.insert or r.remove)
    return replace(result, actual=actual, agrees=same_reactions(expected, actual, unordered=False))
