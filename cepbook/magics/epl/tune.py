"""``%epl tune``: a slider for every variable; statements are drawn anew over the same events."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError

from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions, number
from cepbook.widgets.tuner import Tuner

OPTIONS = (
    MagicOptions("%epl tune")
    .add("names", nargs="*", help="statements that are drawn; default: the last select")
    .add("--range", action="append", default=[], help="of a slider: threshold=0:100")
)


def tune(host: NotebookHost, arguments: list[str]) -> None:
    """Show a slider for every variable, and a marble diagram and a chart of each statement that follow the sliders.

    The running statements and variables stay as they are, until the button Apply assigns the variables.
    """
    options = OPTIONS.parse_words(arguments)
    workbench = host.workbench
    names = options.names or [name for name, s in workbench.runtime.statements.items() if s.kind == "select"][-1:]
    if not names:
        raise UsageError("%epl tune: there is no statement to draw")
    ranges = list(map(_range, options.range))
    twice = next((name for n, (name, _) in enumerate(ranges) if name in dict(ranges[:n])), None)
    if twice is not None:
        raise UsageError(f"%epl tune: --range names `{twice}` twice")
    host.show(Tuner(workbench, names, dict(ranges)))


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, span = text.partition("=")
    low, _, high = span.partition(":")
    try:
        bounds = number(low), number(high)
    except ArgumentTypeError:
        bounds = 1.0, 0.0
    if not (name.strip() and bounds[0] < bounds[1] and math.isfinite(bounds[1] - bounds[0])):
        raise UsageError(f"%epl tune: --range is VARIABLE=LOW:HIGH, not `{text}`")
    return name.strip(), bounds


TUNE = Subcommand(
    "tune",
    tune,
    {"%epl tune [STATEMENT …] [--range VARIABLE=LOW:HIGH]": "A slider for every variable; diagram and chart follow."},
)
