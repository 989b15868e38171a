"""Orders of the replay bar besides start and stop: seek, hop between deliveries, run until an event, set the speed."""

from __future__ import annotations

import time as wall
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

from cepbook.errors import CepbookError, CompileError, UsageError
from cepbook.feeds import Feed
from cepbook.session import Replay, Workbench
from cepbook.session.io.time_conversion import MAX_CLOCK
from cepbook.session.replay.replay import ENDED

TRIGGER_NAME = "until this fires"  # the statement that is deployed for an expression, and dropped when it fired
MAX_BOOKMARKS = 200  # bookmarks at most
LONGEST_TEXT = 10_000  # characters of `run until` that are kept

Action = Callable[[], object]


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -MAX_CLOCK <= value <= MAX_CLOCK  # type: ignore[operator]


class Scrubber:
    """Runs orders of the browser for one `replay` of `workbench`, on the loop that runs the replay.

    `marks` are the bookmarked instants in ms, in order. `note` reports the result of the last order.
    """

    def __init__(self, replay: Replay[Workbench], workbench: Workbench) -> None:
        self._replay = replay
        self._workbench = workbench
        self._unit = workbench.runtime.config.second
        self._awaited: tuple[str, Feed, str] | None = None  # the statement of `run until`, and the text
        self.text = ""  # of `run until`
        self.step = 1  # events of a step
        self.marks: list[int] = []
        self.note = ""
        self.took = 0.0  # seconds that the last look at the past took
        workbench.glance.take_seeks(self._seek)

    def continue_with(self, replay: Replay[Workbench]) -> None:
        """Run orders for the replay that repeats the present one. Bookmarks stay."""
        self._replay, self._awaited, self.note = replay, None, ""

    def action(self, order: dict[str, Any]) -> Action | None:
        """Return what an order of the browser does once `run` may use the engine; None for one that makes no sense."""
        match order:
            case {"order": "seek", "time": ms} if _is_number(ms):
                return lambda: self._seek(self._units(ms))
            case {"order": "seek"} if order.get("time") is None:
                return self._workbench.glance.leave
            case {"order": "hop", "statement": str(name), "back": bool(back)}:
                return lambda: self._seek_delivery(name, back)
            case {"order": "choose", "statement": str(name)}:
                return lambda: self._workbench.glance.choose(name)
            case {"order": "choose", "step": int(step)} if 0 < step <= MAX_CLOCK:
                return lambda: setattr(self, "step", step)
            case {"order": "choose", "text": str(text)} if len(text) <= LONGEST_TEXT:
                return lambda: setattr(self, "text", text)
            case {"order": "mark"}:
                return self._mark
            case {"order": "unmark", "time": ms} if _is_number(ms):
                return lambda: self._unmark(ms)
            case {"order": "speed", "factor": factor} if factor is None or _is_number(factor):
                return lambda: setattr(self._replay, "speed", factor)
            case {"order": "until", "text": str(text)}:
                return lambda: self._run_until(text.strip())
            case {"order": "clock", "by": ms} if _is_number(ms):
                return lambda: self._go_on_to(self._now + self._units(ms))
            case {"order": "clock", "due": True}:
                return self._go_on_to_due
        return None

    def run(self, action: Action) -> None:
        """Run what an order does; an error becomes the note."""
        self.note = ""
        try:
            action()
        except CepbookError as error:
            self.note = str(error)

    def _mark(self) -> None:
        if len(self.marks) < MAX_BOOKMARKS:
            self.marks = sorted({*self.marks, self._ms(self._now)})

    def _unmark(self, ms: float) -> None:
        self.marks = [mark for mark in self.marks if mark != ms]

    def _go_on_to_due(self) -> None:
        due = self._displayed.runtime.next_due
        if due is None:
            raise UsageError("nothing is due")
        self._go_on_to(due)

    def describe(self) -> dict[str, object]:
        """Return the state for the browser, as JSON."""
        replay, glance = self._replay, self._workbench.glance
        span = replay.span
        statements = self._workbench.runtime.statements
        hopped = [name for name, of in statements.items() if of.kind != "create variable" and name != TRIGGER_NAME]
        hopped.sort(key=lambda name: not statements[name].plan.named)
        chosen = glance.statement if glance.statement in hopped else next(iter(hopped), None)
        last = None if replay.state in ENDED else replay.last_time
        due = self._displayed.runtime.next_due
        return {
            "span": None if span is None else [self._ms(max(span[0], replay.began or span[0])), self._ms(span[1])],
            "lacks": replay.lacks,
            "past": None if glance.time is None else self._ms(glance.time),
            "zoom": None if glance.zoom is None else [self._ms(time) for time in glance.zoom],
            "end": None if last is None else self._ms(last),
            "statements": hopped,
            "statement": chosen,
            "marks": self.marks,
            "speed": replay.speed,
            "due": due is not None,
            "awaited": self._awaited and self._awaited[2],
            "text": self.text,
            "step": self.step,
            "note": self.note,
        }

    # ---- times

    def _units(self, ms: float) -> int:
        return int(ms * self._unit) // 1000

    def _ms(self, time: int) -> int:
        return time * 1000 // self._unit

    @property
    def _displayed(self) -> Workbench:
        """The workbench that views display: the one of the past instant, or the present one."""
        return self._workbench.glance.workbench or self._workbench

    @property
    def _now(self) -> int:
        """The instant that is displayed."""
        past = self._workbench.glance.time
        return self._workbench.runtime.now if past is None else past

    def _seek(self, time: int) -> None:
        """Display a past instant; the end of the span is the present, if no event came since."""
        span = self._replay.span
        if span is not None and time >= span[1]:
            self._workbench.glance.leave()
            return
        if span is not None:
            time = max(time, span[0])
        began = wall.perf_counter()
        self._workbench.glance.show(time, self._replay.at(time))
        self.took = wall.perf_counter() - began

    def _seek_delivery(self, name: str, back: bool) -> None:
        times = self._workbench.feed(name).whole().times
        at = bisect_left(times, self._now) - 1 if back else bisect_right(times, self._now)
        if not 0 <= at < len(times):
            raise UsageError(f"no {'earlier' if back else 'later'} delivery of `{name}` is kept")
        self._seek(times[at])

    def _go_on_to(self, time: int) -> None:
        """Move on from the displayed instant: within the past another instant is displayed, and the engine rests."""
        if self._workbench.glance.time is not None:
            self._seek(time)
        elif self._replay.state in ENDED:
            self._workbench.advance(time)
        else:
            self._replay.run_to(time)

    def _run_until(self, text: str) -> None:
        """Replay until a statement or events fire. An expression that does not compile changes nothing."""
        if self._replay.state in ENDED:
            raise UsageError("the replay has ended: no more events arrive")
        if not text:
            raise UsageError("run until what? Enter the name of a statement, or events such as `Tick(price > 100)`")
        name = text if text in self._workbench.runtime.statements else TRIGGER_NAME
        if name == TRIGGER_NAME:
            head = f"@name('{TRIGGER_NAME}') {'' if text.lower().startswith('select ') else 'select * from '}"
            try:
                self._workbench.run(head + text, cell=TRIGGER_NAME)
            except CompileError as error:
                raise error.without(len(head)) from None
        self.text = text
        self._workbench.glance.leave()
        self._wait_for(name, text)
        if name != TRIGGER_NAME:
            self._drop_trigger()

    def _wait_for(self, name: str, text: str) -> None:
        feed = self._workbench.feed(name)
        before = feed.deliveries
        self._awaited = name, feed, text

        def fired() -> bool:
            if feed.deliveries == before:
                return False
            self.note = f"fired: {text}"
            return True

        self._replay.run_until(fired, statement=name)

    def settle(self) -> None:
        """Stop waiting when the replay is paused or has ended, and when the statement of `run until` is gone."""
        if self._awaited is None:
            return
        name, feed, text = self._awaited
        state = self._replay.state
        if state in ("paused", *ENDED):
            self._awaited = None
            if state in ENDED and not self.note:
                self.note = f"the replay has {state}: `{text}` did not fire"
            self._drop_trigger()
        elif name not in self._workbench.runtime.statements:
            self._replay.pause()
            self._awaited, self.note = None, f"paused: `{name}` was dropped, and cannot fire"
        elif self._workbench.feed(name) is not feed:  # deployed anew
            self._wait_for(name, text)

    def _drop_trigger(self) -> None:
        if TRIGGER_NAME in self._workbench.runtime.statements:
            self._workbench.drop(TRIGGER_NAME)
