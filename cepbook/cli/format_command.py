"""``cepbook format``: lays out EPL files (`cepbook.lang.explain.formatting`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from cepbook.cli.command import CliCommand, read_text
from cepbook.errors import CompileError, UsageError
from cepbook.lang.syntax.formatter import format_epl


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", help="EPL files, folders of .epl files; - formats the standard input to standard output"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a file would change")


def run(options: argparse.Namespace) -> int:
    """Format every file. A file that is not EPL is reported and left unchanged."""
    failed = changed = count = 0
    for path in _files(options.paths):
        count += 1
        try:
            before = sys.stdin.read() if path is None else read_text(path)
            after = format_epl(before)
        except CompileError as error:
            print(error.counted_from(1, "standard input" if path is None else str(path)), file=sys.stderr)
            failed += 1
            continue
        if path is None:
            print(after, end="")
        elif after != before:
            changed += 1
            if options.check:
                print(f"would format {path}")
            else:
                end = "\r\n" if b"\r\n" in path.read_bytes() else "\n"  # on every system the file keeps its own
                with path.open("w", encoding="utf-8", newline=end) as file:
                    file.write(after)
                print(f"formatted {path}")
    if not count:
        raise UsageError("there is no .epl file")
    return 1 if failed or (options.check and changed) else 0


def _files(paths: list[str]) -> Iterator[Path | None]:
    for name in paths:
        path = Path(name)
        if name == "-":
            yield None
        elif path.is_dir():
            yield from sorted(path.rglob("*.epl"))
        else:
            yield path


COMMAND = CliCommand(arguments, run)
