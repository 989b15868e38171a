"""``cepbook test``: runs scenario files (`cepbook.testing`) without pytest."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cepbook.cli.command import CliCommand, read_text
from cepbook.errors import UsageError
from cepbook.testing import record, report
from cepbook.testing.engines import ENGINES
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import case_sections, is_scenario, parse_case, refuse_headless_case
from cepbook.testing.trace import ScenarioError

ENGINE = "rows"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, default=[Path()], help="scenario files, folders of them")
    parser.add_argument("-k", dest="word", default="", help="only cases whose file or heading holds this word")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cases that pass, too")
    parser.add_argument(
        "--record", action="store_true", help="write what happens into the files, but for cases with an oracle"
    )


def test(options: argparse.Namespace) -> int:
    """Run every case and print differences beside the expected reactions."""
    counts: Counter[str] = Counter()
    for path in _files(options.paths):
        _test_file(path, read_text(path), options, counts)
    if not counts:
        raise UsageError(
            "there is no scenario case\n  hint: a case is a heading with a block ```epl and a block ```trace"
        )
    print(", ".join(f"{counts[what]} {what}" for what in ("passed", "failed", "refused", "recorded") if counts[what]))
    return 1 if counts["failed"] else 0


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def _test_file(path: Path, source: str, options: argparse.Namespace, counts: Counter[str]) -> None:
    if not is_scenario(source):
        return
    edits: list[record.LineEdit] = []
    try:
        refuse_headless_case(source, path)
    except ScenarioError as error:
        counts["failed"] += 1
        print(f"FAILED {error}")
        return
    for section in case_sections(source):
        name = f"{path}::{section.title}"
        if options.word.lower() not in name.lower():
            continue
        try:
            result = run(parse_case(section, path), ENGINES[ENGINE], ENGINE)
        except ScenarioError as error:
            counts["failed"] += 1
            print(f"FAILED {name}\n{error}\n")
            continue
        edits_of_case = record.edits(result) if options.record else []
        edits += edits_of_case
        outcome = "refused" if result.outcome is Outcome.NOT_COVERED else "passed"
        if edits_of_case and record.recorded_all(result):
            outcome = "recorded"
        elif result.outcome is Outcome.FAILED or result.disagreement is not None:
            outcome = "failed"
            print(f"FAILED {name}\n{report.failure_report(result, str(path))}\n")
        counts[outcome] += 1
        if options.verbose and outcome != "failed":
            print(f"{outcome} {name}")
    if edits:
        record.rewrite(path, edits)


COMMAND = CliCommand(arguments, test)
