"""``%clock``: show the engine's clock or move it forward."""

from __future__ import annotations

import re
from collections.abc import Callable

from cepbook.errors import UsageError
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import OptionsError, strip_comment
from cepbook.magics.shell.output import clock_text, text
from cepbook.session import Workbench
from cepbook.session.io.time_conversion import int_or_text, parse_period, to_clock_units
from cepbook.widgets.base.static_picture import StaticPicture

LIVE_COMMANDS: dict[str, Callable[[Workbench], object]] = {
    "live": lambda workbench: workbench.run_clock(),
    "live here": lambda workbench: workbench.run_clock(here=True),
    "stop": lambda workbench: workbench.stop_clock(),
}


def run_line(host: NotebookHost, line: str) -> StaticPicture:
    """Show the time and the next due time; with an argument advance first.

    ``%clock 1500`` (ms since 1970), ``%clock 2024-01-01T08:00`` (UTC) and ``%clock +10 sec`` advance at once;
    everything due fires in order. ``%clock live`` lets real time drive the clock from now, ``%clock live here`` from
    where it stands, until ``%clock stop``. Raises EventError for a time in the past, UsageError for any other text.
    """
    workbench = host.workbench
    second = workbench.runtime.config.second
    argument = strip_comment(line)
    if argument.lower() in LIVE_COMMANDS:
        LIVE_COMMANDS[argument.lower()](workbench)
    elif argument.startswith("+"):
        span = argument[1:].strip()
        if parse_period(span, second) is None:
            raise OptionsError("%clock", f"`{span}` is no time period")
        workbench.advance(by=span)
    elif isinstance(time := int_or_text(argument), int):
        workbench.advance(time)
    elif argument:
        span = re.sub(r"\A(?:advance|forward|by|to|set)\s+", "", argument, flags=re.IGNORECASE)
        if parse_period(span, second) is not None:
            raise UsageError(
                f"%clock: `{argument}` is no point in time\n  hint: `%clock +{span}` moves the clock forward"
            )
        if span != argument:
            raise UsageError(f"%clock: `{argument}` is no point in time\n  hint: write the time alone: `%clock {span}`")
        try:
            to_clock_units(argument, second)
        except UsageError:
            raise OptionsError("%clock", f"`{argument}` is no point in time") from None
        workbench.advance(argument)
    lines = [clock_text(workbench.runtime.now, second) + (", live" if workbench.live_clock is not None else "")]
    due = workbench.runtime.next_due
    if due is not None:
        lines.append(f"next due: {clock_text(due, second)}")
    if workbench.clock_note:
        lines.append(workbench.clock_note)
    return text("\n".join(lines))


FORMS = {
    "%clock": "Show the clock, and when something is due next.",
    "%clock 1500": "Move it forward to a time (ms since it began, or since 1970) and fire everything that is due.",
    "%clock +10 sec": "Move it forward by a period.",
    "%clock 2024-01-01T08:00": "Move it forward to a date.",
    "%clock live [here]": "Let the wall clock drive it; `here`: from where it stands.",
    "%clock stop": "Let it stand again.",
}
COMMAND = MagicCommand(
    "clock",
    "Show the clock, or move it forward and fire everything that is due.",
    tuple(FORMS),
    line=run_line,
    says=FORMS,
)
