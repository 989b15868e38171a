"""Counts the outcomes of a folder of scenario files: ``python -m cepbook.testing.sweep DIR``.

A tool for work on an engine. It prints passed, failed and uncovered cases per file (``-v``: with the first difference
and the reason of each refusal), and can copy the passing cases into another folder. Unlike the pytest plugin, it
ignores ``refuses:`` lines. A case that runs longer than `--timeout` seconds counts as failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cepbook.testing import report
from cepbook.testing.engines import ENGINES
from cepbook.testing.markdown import Section
from cepbook.testing.runner import Outcome, first_line, run
from cepbook.testing.scenario import case_sections, is_scenario, parse_case
from cepbook.testing.trace import ScenarioError

ENGINE = "rows"


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """One case. `note` is the first difference or the reason of the refusal, `report` the report of a failure."""

    name: str
    outcome: Outcome
    note: str
    report: str = ""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """All cases of one file, in order."""

    path: Path
    cases: tuple[CaseSummary, ...]

    def count(self, outcome: Outcome) -> int:
        return sum(case.outcome is outcome for case in self.cases)


class CaseTimeout(BaseException):
    """A case ran too long. Not an `Exception`, so that no statement's error handling catches it."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `CaseTimeout` after `seconds`, on systems that have interval timers."""
    if sys.platform == "win32":
        yield
        return

    def expire(signum: int, frame: FrameType | None) -> None:
        raise CaseTimeout

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sweep_case(section: Section, path: Path, timeout: float) -> CaseSummary:
    """Run one case. Every error becomes a summary."""
    try:
        case = parse_case(section, path)
        with _limited(timeout):
            result = run(case, ENGINES[ENGINE], ENGINE)
    except ScenarioError as error:
        return CaseSummary(section.title, Outcome.FAILED, str(error))
    except CaseTimeout:
        return CaseSummary(section.title, Outcome.FAILED, f"still running after {timeout:g} seconds")
    match result.outcome:
        case Outcome.PASSED:
            return CaseSummary(case.name, Outcome.PASSED, "")
        case Outcome.NOT_COVERED:
            return CaseSummary(case.name, Outcome.NOT_COVERED, first_line(result.refusals[0]))
        case Outcome.FAILED:
            note = report.first_difference(result)
            return CaseSummary(case.name, Outcome.FAILED, note, report.failure_report(result, path.name))


def sweep_file(path: Path, timeout: float, pattern: str = "") -> FileSummary:
    """Run the cases of a file whose name contains `pattern`."""
    cases = case_sections(path.read_text(encoding="utf-8"))
    return FileSummary(path, tuple(sweep_case(s, path, timeout) for s in cases if pattern in s.title))


def scenario_files(root: Path) -> list[Path]:
    """The scenario files at or below `root`, sorted."""
    candidates = [root] if root.is_file() else sorted(root.rglob("*.md"))
    return [path for path in candidates if is_scenario(path.read_text(encoding="utf-8"))]


def sweep(root: Path, *, jobs: int = 1, timeout: float = 10.0, pattern: str = "") -> list[FileSummary]:
    """Run every case below `root`, with `jobs` processes, one file at a time in each."""
    files = scenario_files(root)
    if jobs <= 1:
        return [sweep_file(path, timeout, pattern) for path in files]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(sweep_file, files, [timeout] * len(files), [pattern] * len(files)))


def select_cases(source: str, choose: Callable[[str], str | None], earlier: str = "") -> str:
    """Return a scenario file with some of the cases of `source`, unchanged.

    `choose` maps the name of a case to None (omit it), to a ``refuses:`` line to insert above its first block, or to
    ``""`` (insert nothing). `earlier` is an earlier result, whose header and cases take precedence over those of
    `source`, except for a case that declares a refusal and is now included without one. Cases that only `earlier` has
    come last.
    """
    earlier_cases = {section.title: section for section in case_sections(earlier)}
    old, new = earlier.split("\n"), source.split("\n")
    cases = case_sections(source)
    parts = [_header(old, case_sections(earlier)) if earlier_cases else _header(new, cases)]
    for section in cases:
        refusal = choose(section.title)
        before = earlier_cases.pop(section.title, None)
        if before is not None and not (refusal == "" and _refuses(before)):
            parts.append(_text(old, before))
        elif refusal is not None:
            parts.append(_with_refusal(new, section, refusal))
    parts += [_text(old, section) for section in earlier_cases.values()]
    return "\n\n".join(section_text.strip("\n") for section_text in parts if section_text.strip()) + "\n"


def _header(lines: Sequence[str], cases: Sequence[Section]) -> str:
    return "\n".join(lines[: cases[0].line - 1]) if cases else ""


def _text(lines: Sequence[str], section: Section) -> str:
    return "\n".join(lines[section.line - 1 : section.last_line])


def _refuses(section: Section) -> bool:
    return any(line.startswith("refuses:") for _, line in section.prose)


def _with_refusal(lines: Sequence[str], section: Section, refusal: str) -> str:
    if not refusal:
        return _text(lines, section)
    above = lines[section.line - 1 : section.blocks[0].line - 1]
    below = lines[section.blocks[0].line - 1 : section.last_line]
    return "\n".join([*above, refusal, "", *below])


def copy_cases(summaries: Sequence[FileSummary], root: Path, target: Path, *, refused: bool = False) -> list[Path]:
    """Write the passing cases to ``target/<folder>/<file>.md`` and return the files.

    With `refused`, cases that the engine does not cover are copied with a ``refuses:`` line. Cases that the target
    already has stay unchanged.
    """
    written = []
    for summary in summaries:
        notes = {case.name: case for case in summary.cases}

        def choose(name: str, notes: dict[str, CaseSummary] = notes) -> str | None:
            case = notes.get(name)
            if case is None or case.outcome is Outcome.FAILED:
                return None
            if case.outcome is Outcome.PASSED:
                return ""
            return f"refuses: {ENGINE} — {case.note}" if refused else None

        path = target / summary.path.parent.name / summary.path.name
        if root.is_dir() and summary.path.parent != root:
            path = target / summary.path.relative_to(root)
        earlier = path.read_text(encoding="utf-8") if path.exists() else ""
        if not earlier and all(choose(name) is None for name in notes):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(select_cases(summary.path.read_text(encoding="utf-8"), choose, earlier), encoding="utf-8")
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return 0 if no case failed."""
    options = _options().parse_args(arguments)
    summaries = sweep(options.dir, jobs=options.jobs, timeout=options.timeout, pattern=options.k)
    for summary in summaries:
        _say_file(summary, options)
    if options.reasons:
        _say_reasons(summaries)
    if options.copy_passing is not None:
        for path in copy_cases(summaries, options.dir, options.copy_passing, refused=options.with_refused):
            _say(f"wrote {path}")
    counts = {outcome: sum(summary.count(outcome) for summary in summaries) for outcome in Outcome}
    if not options.list_passing:
        _say(_counts(counts) + f"  of {sum(counts.values())} cases in {len(summaries)} files")
    return 1 if counts[Outcome.FAILED] else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cepbook.testing.sweep", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dir", type=Path, help="a folder with scenario files, or one file")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="first differences; -vv: whole reports")
    parser.add_argument("-k", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds per case (default: 10)")
    parser.add_argument("--list-passing", action="store_true", help="print file::case of every passing case only")
    parser.add_argument("--reasons", action="store_true", help="count the reasons of refusals")
    parser.add_argument("--copy-passing", type=Path, metavar="DEST", help="write DEST/<folder>/<file>.md with them")
    parser.add_argument("--with-refused", action="store_true", help="copy cases not covered, too, and declare that")
    return parser


def _say_file(summary: FileSummary, options: argparse.Namespace) -> None:
    if options.list_passing:
        for case in summary.cases:
            if case.outcome is Outcome.PASSED:
                _say(f"{summary.path}::{case.name}")
        return
    if not summary.cases:
        return
    _say(_counts({outcome: summary.count(outcome) for outcome in Outcome}) + f"  {summary.path}")
    for case in summary.cases if options.verbose else ():
        if case.outcome is not Outcome.PASSED:
            mark = "FAIL" if case.outcome is Outcome.FAILED else "  nc"
            _say(f"      {mark} {case.name}: {case.note}")
            if options.verbose > 1 and case.report:
                _say("\n".join(f"          {line}" for line in case.report.split("\n")))


def _say_reasons(summaries: Sequence[FileSummary]) -> None:
    reasons = Counter(c.note for s in summaries for c in s.cases if c.outcome is Outcome.NOT_COVERED)
    for reason, count in reasons.most_common():
        _say(f"{count:>5}  {reason}")


def _counts(counts: dict[Outcome, int]) -> str:
    return "  ".join(f"{counts[outcome]:>4} {outcome.value}" for outcome in Outcome)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
