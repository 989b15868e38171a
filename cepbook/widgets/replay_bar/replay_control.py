"""ReplayControl: the progress of a replay with pause, step and stop, usable while the replay runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

from cepbook.display import format_count, format_time
from cepbook.errors import StatementError
from cepbook.session import Progress, Replay
from cepbook.session.replay.replay import ENDED
from cepbook.widgets.base.control import ControlWidget, control_script, control_style
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.replay_bar.scrubber import Action, Scrubber

NOTABLE_LAG = 1.0  # seconds that a replay must lag behind the wall clock to be told


def _troubles(progress: Progress) -> str:
    """Return what went wrong, each part behind a comma: late events, statement errors."""
    text = f", {progress.late:,} late" if progress.late else ""
    return text + (f", {format_count(progress.errors, 'statement error')}" if progress.errors else "")


class ReplayControl(ControlWidget):
    """Progress bar and buttons of one replay; reads `replay.progress` at most `rate` times per second.

    It updates after every slice of the replay, and by itself while an event loop runs. When the replay ends, the saved
    output is updated (see `LiveWidget.show`).
    """

    _esm = control_script(__file__, "scrubber.js", "replay_control.js")
    _css = control_style(__file__, "replay_control.css")

    def __init__(self, replay: Replay[Any], *, rate: float = 10.0, now: Callable[[], float] = time.monotonic) -> None:
        self._target = replay
        workbench = replay.workbench
        self._scrubber = Scrubber(replay, workbench) if workbench is not None and isinstance(replay, Replay) else None
        self._actions: deque[tuple[bool, Action]] = deque(maxlen=100)  # of orders; True: of a seek
        super().__init__(rate=rate, now=now)
        self.follow(replay)
        if workbench is not None:
            workbench.glance.subscribe(self._on_glance)
            workbench.glance.subscribe(self._on_replay, to_replays=True)

    @property
    def replay(self) -> Replay[Any]:
        """The replay, or the one that repeats it."""
        return self._target

    def _resume(self) -> None:
        self.follow(self._target)

    def _on_glance(self) -> None:
        self._pump.touch()

    def _on_replay(self) -> None:
        """Continue with the replay that repeats the present one."""
        if self._target.successor is not None:
            self._target = self._target.successor
            if self._scrubber is not None:
                self._scrubber.continue_with(self._target)
            self.follow(self._target)
            self._pump.touch()

    def _run_orders(self) -> None:
        """Run pending orders, where the engine may be used; of several seeks only the last."""
        while self._scrubber is not None and self._actions:
            seeks, action = self._actions.popleft()
            if seeks and any(later for later, _ in self._actions):
                continue
            self._scrubber.run(action)
            if seeks:
                self._last = {}  # the page waits for an answer before it asks for another instant, also of the same
            self._pump.touch()
            super().flush(urgent=True)

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame as `LiveWidget` does, after running orders and reading the progress."""
        self._run_orders()
        self._pump.touch()
        return super().flush(urgent=urgent)

    def freeze(self) -> StaticPicture:
        """Return the progress as text and HTML, without rate and wall clock."""
        progress = self._target.progress
        total = f" of {progress.total:,}" if progress.total is not None else ""
        total = f" of about {progress.estimate:,}" if progress.estimate is not None else total
        noun = "event" if not total and progress.events == 1 else "events"
        text = f"replay {progress.state}: {progress.events:,}{total} {noun}{_troubles(progress)}, clock "
        text += format_time(progress.clock)
        return StaticPicture(f"<div>{escape(text)}</div>", text)

    def _mark(self) -> object:
        return self.freeze().text

    @property
    def _ended(self) -> bool:
        return self._target.progress.state in ENDED

    def _state(self) -> dict[str, object]:
        progress = self._target.progress
        contents: dict[str, object] = {
            "events": progress.events,
            "total": progress.total,
            "estimate": progress.estimate,
            "clock": format_time(progress.clock),
            "state": progress.state,
            "troubles": _troubles(progress)[2:],
            "failed": progress.errors > 0,
            "behind": round(progress.behind, 1) if progress.behind >= NOTABLE_LAG else 0,
        }
        if self._scrubber is not None:
            self._scrubber.settle()
            contents["scrub"] = self._scrubber.describe()
        return contents

    def _receive(self, content: dict[str, Any]) -> bool:
        if super()._receive(content):
            return True
        match content:
            case {"kind": "order", "order": "pause"}:
                self._target.pause()
            case {"kind": "order", "order": "resume"}:
                self._target.resume()
            case {"kind": "order", "order": "stop"}:
                self._target.stop()
            case {"kind": "order", "order": "step", "n": int(n)} if n > 0:
                with suppress(StatementError):  # the bar shows it
                    self._target.step(n)
            case {"kind": "order"} if self._scrubber and (action := self._scrubber.action(content)) is not None:
                self._actions.append((content["order"] == "seek", action))
                self._pump.soon(self._run_orders)
            case _:
                return False
        self._pump.touch()
        return True
