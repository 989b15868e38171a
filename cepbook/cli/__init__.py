"""The command line: ``cepbook run``, ``test``, ``format`` and ``lab``.

Exit codes: 0 all went well; 1 the EPL, the events, a statement or a case is at fault, or a file is not formatted;
2 the command line is; 130 interrupted by Ctrl-C; 141 nobody reads the standard output any more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from cepbook import __version__
from cepbook.cli import formatting, lab, replaying, scenarios
from cepbook.errors import CepbookError, printable, shortened

COMMANDS = (replaying.COMMAND, scenarios.COMMAND, formatting.COMMAND, lab.COMMAND)
FAILED, INTERRUPTED, UNREAD = 1, 130, 141


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(shortened(printable(message)))


def main(given: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. `given` are the words behind ``cepbook`` (default: of this process)."""
    try:
        try:
            return _run(given)
        except CepbookError as error:
            print(f"cepbook: {error}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("cepbook: interrupted", file=sys.stderr)
            return INTERRUPTED
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # whoever read has enough, as in `cepbook test | head`: it is told by the exit code
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return UNREAD


def _run(given: Sequence[str] | None) -> int:
    parser = _Parser(prog="cepbook", description="Complex event processing: EPL over event streams.")
    parser.add_argument("--version", action="version", version=f"cepbook {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        made = commands.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        command.arguments(made)
        made.set_defaults(run=command.run)
    options = parser.parse_args(given)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)
