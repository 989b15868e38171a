"""``pytest --record``: writes what an engine did into the scenario file, by position.

Only what differs is rewritten, so the author's own spelling of a row that agrees stays as it is. Reactions of a case
with an ``oracle:`` line are facts about another implementation and are never touched; its ``error`` fences are,
because there only the refusal is the oracle's and the wording is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cepbook.testing.runner import CaseResult, InvalidResult, StepResult
from cepbook.testing.trace import INDENT, format_reactions


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Replace the lines `first` to `last` (1-based, inclusive) by `lines`; with `last` = `first` - 1, insert them."""

    first: int
    last: int
    lines: tuple[str, ...]


def edits(result: CaseResult) -> tuple[LineEdit, ...]:
    """What must change in the file so that it says what happened; nothing if the run stopped early."""
    if result.broken is not None or any(not tried.refused and tried.diagnostic is None for tried in result.invalid):
        return ()
    found = [edit for tried in result.invalid for edit in _error_edit(tried)]
    if result.case.oracle is None and not result.refusals:
        found += [edit for step in result.steps for edit in _step_edit(step)]
    return tuple(found)


def recorded_all(result: CaseResult) -> bool:
    """Whether the case agrees with the engine once its `edits` are made."""
    if result.broken is not None or result.disagreement is not None:
        return False
    if any(not tried.refused and tried.diagnostic is None for tried in result.invalid):
        return False
    if all(step.agrees for step in result.steps):
        return True
    return result.case.oracle is None and not result.refusals and all(step.can_record for step in result.steps)


def apply(source: str, changes: Iterable[LineEdit]) -> str:
    """`source` with all changes made; they must not overlap. Line ends of other lines stay as they are."""
    lines = source.split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    for edit in sorted(changes, key=lambda edit: edit.first, reverse=True):
        lines[edit.first - 1 : edit.last] = [line + end for line in edit.lines]
    return "\n".join(lines)


def _step_edit(result: StepResult) -> Iterator[LineEdit]:
    if result.agrees or not result.can_record:
        return
    step = result.step
    reactions = [INDENT + line for line in format_reactions(result.actual)]
    if result.added:
        reactions.insert(0, step.text)
    yield LineEdit(step.line + 1, step.last_line, tuple(reactions))


def _error_edit(tried: InvalidResult) -> Iterator[LineEdit]:
    if tried.refused or tried.diagnostic is None:
        return
    text = tuple(tried.diagnostic.splitlines())
    recorded = tried.fence.error
    if recorded is None:
        fence = "````" if any(line.lstrip().startswith("```") for line in text) else "```"
        after = tried.fence.last_line + 1
        yield LineEdit(after, after - 1, ("", f"{fence}error", *text, fence))
    elif not tried.agrees:
        yield LineEdit(recorded.line + 1, recorded.last_line - 1, text)
