"""``%epl tune``: a slider for every variable; statements are drawn anew over the same events."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError

from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost
from cepbook.magics.shell.options import MagicOptions, number
from cepbook.widgets.tuner import Tuner

OPTIONS = (
    MagicOptions("%epl tune")
    .add("names", nargs="*", help="statements that are drawn; default: the last select")
    .add("--range", action="append", default=[], help="of a slider: threshold=0:100")
)


def tune(host: NotebookHost, rest: list[str]) -> None:
    """Sliders, and below them a marble diagram and a chart of each statement, which follow the sliders.

    The running statements and variables stay as they are, until the button Apply assigns the variables.
    """
    options = OPTIONS.parse_words(rest)
    workbench = host.workbench
    names = options.names or [name for name, s in workbench.runtime.statements.items() if s.kind == "select"][-1:]
    if not names:
        raise UsageError("%epl tune: there is no statement to draw")
    ranges = list(map(_range, options.range))
    twice = next((name for n, (name, _) in enumerate(ranges) if name in dict(ranges[:n])), None)
    if twice is not None:
        raise UsageError(f"%epl tune: --range names `{twice}` twice")
    tuner = Tuner(workbench, names, dict(ranges))
    host.show(tuner)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, span = text.partition("=")
    low, _, high = span.partition(":")
    try:
        found = number(low), number(high)
    except ArgumentTypeError:
        found = 1.0, 0.0
    if not (name.strip() and found[0] < found[1] and math.isfinite(found[1] - found[0])):
        raise UsageError(f"%epl tune: --range is VARIABLE=LOW:HIGH, not `{text}`")
    return name.strip(), found
