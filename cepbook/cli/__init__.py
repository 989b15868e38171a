"""The command line: ``cepbook run``, ``test``, ``format`` and ``lab``.

Exit codes: 0 success; 1 an error in the EPL, the events, a statement or a case, or a file that is not formatted; 2 an
error in the command line; 130 interrupted by Ctrl-C; 141 the reader of the standard output has closed it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from cepbook import __version__
from cepbook.cli.command import CliCommand
from cepbook.errors import CepbookError, printable, shorten_line

# Name -> module with its `COMMAND`, and summary. Only the module of the called command is imported: pandas takes a
# second, and `format`, which editors and hooks call for each file, does not need it.
COMMANDS = {
    "run": ("cepbook.cli.run_command", "Run EPL modules over files of events and write what statements deliver."),
    "test": ("cepbook.cli.scenario_command", "Run the cases of scenario files."),
    "format": ("cepbook.cli.format_command", "Lay out EPL files: a clause per line, one kind of spacing."),
    "lab": ("cepbook.cli.lab_command", "Open JupyterLab at a notebook with the workbench."),
}
FAILED, INTERRUPTED, UNREAD = 1, 130, 141


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(shorten_line(printable(message)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    `arguments` are the words after ``cepbook``, by default of this process.
    """
    try:
        try:
            return _run(arguments)
        except CepbookError as error:
            print(f"cepbook: {error}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("cepbook: interrupted", file=sys.stderr)
            return INTERRUPTED
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as in `cepbook test | head`
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return UNREAD


def load(words: Sequence[str]) -> tuple[str, CliCommand | None]:
    """Return the name of the command and the imported command; None if there is no such command."""
    name = next((word for word in words if not word.startswith("-")), "")  # options before the command have no values
    if name not in COMMANDS:
        return name, None
    command: CliCommand = importlib.import_module(COMMANDS[name][0]).COMMAND
    return name, command


def _run(arguments: Sequence[str] | None) -> int:
    parser = _Parser(prog="cepbook", description="Complex event processing: EPL over event streams.")
    parser.add_argument("--version", action="version", version=f"cepbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    words = sys.argv[1:] if arguments is None else arguments
    called, command = load(words)
    for name, (_, summary) in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if command is not None and name == called:
            command.arguments(subparser)
            subparser.set_defaults(run=command.run)
    options = parser.parse_args(words)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)
