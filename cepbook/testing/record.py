"""``pytest --record``: writes the actual reactions into the scenario file, by position.

Only differing lines are rewritten, so the author's spelling of a row that agrees stays. Reactions of a case with an
``oracle:`` line are facts about another implementation and are never changed. Its ``error`` fences are, because only
the refusal is the oracle's and the wording is cepbook's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cepbook.testing.runner import CaseResult, InvalidResult, StepResult
from cepbook.testing.trace import INDENT, format_reactions


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Replace the lines `first` to `last` (1-based, inclusive) by `lines`. If `last` is `first` - 1, insert them."""

    first: int
    last: int
    lines: tuple[str, ...]


def edits(result: CaseResult) -> tuple[LineEdit, ...]:
    """Return the changes that make the file agree with a result; none if the run stopped early."""
    if result.broken is not None or any(not tried.refused and tried.diagnostic is None for tried in result.invalid):
        return ()
    changes = [edit for tried in result.invalid for edit in _error_edit(tried)]
    if result.case.oracle is None and not result.refusals:
        changes += [edit for step in result.steps for edit in _step_edit(step)]
    return tuple(changes)


def recorded_all(result: CaseResult) -> bool:
    """Return whether the case agrees with the engine after its `edits`."""
    if result.broken is not None or result.disagreement is not None:
        return False
    if any(not tried.refused and tried.diagnostic is None for tried in result.invalid):
        return False
    if all(step.agrees for step in result.steps):
        return True
    return result.case.oracle is None and not result.refusals and all(step.can_record for step in result.steps)


def apply(source: str, changes: Iterable[LineEdit]) -> str:
    """Return `source` with all changes, which must not overlap. Line ends of other lines stay as they are."""
    lines = source.split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    for edit in sorted(changes, key=lambda edit: edit.first, reverse=True):
        lines[edit.first - 1 : edit.last] = [line + end for line in edit.lines]
    return "\n".join(lines)


def rewrite(path: Path, changes: Iterable[LineEdit]) -> None:
    """Apply changes to a file, without a change of its line ends."""
    with path.open(encoding="utf-8", newline="") as file:
        source = file.read()
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(apply(source, changes))


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
    fence_error = tried.fence.error
    if fence_error is None:
        fence = "````" if any(line.lstrip().startswith("```") for line in text) else "```"
        after = tried.fence.last_line + 1
        yield LineEdit(after, after - 1, ("", f"{fence}error", *text, fence))
    elif not tried.agrees:
        yield LineEdit(fence_error.line + 1, fence_error.last_line - 1, text)
