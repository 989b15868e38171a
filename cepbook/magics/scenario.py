"""``%%scenario``: events for the statements in their first state, with the reactions beside the stimuli.

The cell is written like one of ``%%events`` and runs in a workbench of its own (`Workbench.rehearsal`) with the same
event types, statements and functions in their first state and the clock at its start. The session is not affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cepbook.display import format_count
from cepbook.errors import Diagnostic, UsageError
from cepbook.magics.epl.record import add_case, cases_of
from cepbook.magics.event_cells.cell_checks import check, check_written, observed_statements
from cepbook.magics.event_cells.event_times import EventTimes
from cepbook.magics.event_cells.reaction_recorder import ReactionRecorder, expectation_error, side_by_side
from cepbook.magics.events import DETAILS as NOTATION
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import MagicOptions
from cepbook.magics.shell.output import row_text, table
from cepbook.testing.cell_reader import parse_cell, read_cell
from cepbook.testing.report import compared_statements, evaluate_step
from cepbook.testing.runner import StepResult
from cepbook.testing.trace import Failure, Reaction, ReadRows, StatementDelivery
from cepbook.widgets.base.static_picture import StaticPicture

OPTIONS = (
    MagicOptions("%%scenario")
    .add("--only", help="observe only these statements: --only out,alerts")
    .add("--save", help="a Markdown file; the scenario is added to it as a case when all reactions are as expected")
    .add("--title", help="heading of that case; default: scenario")
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line beside a stimulus: a row with its sign, or a failure."""

    who: str
    sign: str
    what: str


def run_cell(host: NotebookHost, line: str, cell: str) -> None:
    """Read, check, run, show; then compare and save.

    Raises EventsError before anything runs. After everything was shown it raises ExpectationError or, in a cell without
    expectations, the first StatementError.
    """
    options = OPTIONS.parse(line)
    if options.save is not None:
        cases_of(options.save)  # refused before anything runs
    elif options.title is not None:
        raise UsageError("%%scenario: --title needs --save")
    twin = host.workbench.rehearsal()
    only = observed_statements(options.only, twin)
    parts = read_cell(cell, twin.runtime.now, twin.runtime.config.second)
    check(twin, parts, cell)
    moments = EventTimes(twin)
    parts = moments.read(parts)
    note = moments.untimely(parts)
    checked = compared_statements(parts)
    with ReactionRecorder(twin, only) as observer:
        results = [observer.run(step.step) for step in parts]
    if checked is None:
        host.show(_beside(results, moments, [note] if note else []))
        if observer.errors:
            raise observer.errors[0]
    else:
        results = [evaluate_step(result, checked) for result in results]
        wrong = [result for result in results if not result.agrees]
        if wrong:
            host.show(side_by_side(map(moments.written, results)))
            raise expectation_error(wrong)
        reactions = format_count(sum(len(result.step.reactions) for result in results), "reaction")
        agreed = f"✓ {reactions} as expected"
        host.show(_beside(results, moments, [note, agreed] if note else [agreed]))
    if options.save is not None:
        host.show(add_case(options.save, twin, options.title or "scenario"))


def check_cell(host: NotebookHost, line: str, body: str, cell: str | None) -> tuple[Diagnostic, ...]:
    """Raise EventsError for what is wrong with a cell, UsageError for wrong options; run nothing."""
    workbench = host.workbench
    observed_statements(OPTIONS.parse(line).only, workbench)
    check_written(workbench, body, *parse_cell(body, workbench.start.units, workbench.runtime.config.second))
    return ()


def _beside(results: Sequence[StepResult], moments: EventTimes, notes: Sequence[str]) -> StaticPicture:
    """Every stimulus with its reactions, one line per row of a delivery."""
    rows: list[tuple[str, str, str, str]] = []
    for result in results:
        lines = [line for reaction in result.actual for line in _lines(result, reaction, moments)]
        for number, line in enumerate(lines or [_Line("", "", "")]):
            rows.append((result.step.text.strip() if number == 0 else "", line.who, line.sign, line.what))
    headings = ("stimulus", "statement", "±", "reaction")
    return table("", headings, rows, signs=[row[2] for row in rows], notes=notes)


def _lines(result: StepResult, reaction: Reaction, moments: EventTimes) -> Iterator[_Line]:
    times, second = moments.columns(result.step.stimulus, reaction), moments.second
    match reaction:
        case StatementDelivery(who, insert, remove):
            signed = [("+", row) for row in insert] + [("−", row) for row in remove]
            for number, (sign, row) in enumerate(signed):
                yield _Line("" if number else who, sign, row_text(row, times, second))
        case ReadRows(rows):
            yield from (_Line("", "=", row_text(row, times, second)) for row in rows)
            if not rows:
                yield _Line("", "=", "(none)")
        case Failure(who, detail):
            yield _Line(who, "!", detail.partition("\n")[0])


DETAILS = f"""\
The statements are those of the session in their first state, the clock is at its start; the session sees nothing of it.
--save FILE adds the cell as a case to a scenario file, which `cepbook test` and pytest run.

{NOTATION}"""

COMMAND = MagicCommand(
    "scenario",
    "Try events on the statements as they were at the beginning, apart from the session; reactions stand beside them.",
    ("%%scenario [--only STATEMENT,…] [--save FILE.md] [--title TEXT]",),
    cell=run_cell,
    details=DETAILS,
    options=OPTIONS,
    check=check_cell,
)
