"""LiveControl: live sources with their rates, ages, rejected items and lost connections, to pause and to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from cepbook.display import DisplayTable, captioned_html, format_count, format_time, truncate
from cepbook.session.replay.live_ingestion import Live
from cepbook.session.replay.source_status import Rejection
from cepbook.widgets.base.control import ControlWidget, control_script, control_style
from cepbook.widgets.base.static_picture import StaticPicture

MAX_SOURCES = 50  # and of each of the other lists: that many are displayed
MAX_ENTRIES = 20
STEADY = ("source", "state", "events", "late", "buffered", "rejected", "reconnections", "note")  # without a wall clock
RIGHT = {"events", "late", "buffered", "rejected", "reconnections", "count", "gap"}


def _plain(value: object) -> object:
    """Return a value of a table for the page: texts as one short line that changes no text beside it."""
    return truncate(" ".join(value.split())) if isinstance(value, str) else value


class LiveControl(ControlWidget):
    """Table and buttons of live sources. It reads them at most `rate` times per second.

    When all sources have ended, the saved output is updated (see `LiveWidget.show`).
    """

    _esm = control_script(__file__, "live_control.js")
    _css = control_style(__file__, "live_control.css")

    def __init__(self, live: Live, *, rate: float = 2.0, now: Callable[[], float] = time.monotonic) -> None:
        self._target = live
        self._actions = {"pause": live.pause, "resume": live.resume, "stop": live.stop}  # by order of the page
        self._forget: Callable[[], None] | None = None
        super().__init__(rate=rate, now=now)
        self._resume()

    def _resume(self) -> None:
        if not self._ended and self._forget is None:
            self._forget = self._target.on_end(self._on_end)

    def _on_end(self) -> None:
        self.refresh_output()
        self._saved = None  # to be repeated after the cell: see `show_live`

    def close(self) -> None:
        """Close the widget; the static picture in the notebook stays."""
        if self._forget is not None:
            self._forget()
            self._forget = None
        super().close()

    @property
    def _ended(self) -> bool:
        return self._target.ended

    def freeze(self) -> StaticPicture:
        """Return the sources as text and HTML, without rates and ages."""
        text = repr(self._target)
        head, *notes = text.split("\n")
        rows = [{name: row[name] for name in STEADY} for row in self._target.rows()[:MAX_SOURCES]]
        parts = [f"<div>{escape(head)}</div>", *(f"<div>{escape(note.strip())}</div>" for note in notes)]
        tables = (("sources", rows), ("rejected items", self._rejections()), ("lost connections", self._losses()))
        for caption, entries in tables:
            if entries:
                parts.append(captioned_html(caption, _table(entries)))
        return StaticPicture("".join(parts), text)

    def _mark(self) -> object:
        return repr(self._target)

    def _state(self) -> dict[str, object]:
        live = self._target
        rows, missing = live.rows(), live.missing
        troubles = [
            (len(live.failures), "source", " failed"),
            (live.errors, "statement error", ""),
            (missing, "rejected item", " not in the file"),
        ]
        return {
            "state": live.state,
            "events": sum(row["events"] for row in rows),
            "rate": round(sum(row["rate"] for row in rows), 1),
            "clock": format_time(live.workbench.runtime.now, second=live.workbench.runtime.config.second),
            "troubles": ", ".join(format_count(count, noun) + rest for count, noun, rest in troubles if count),
            "note": _plain(live.reason),
            "sources": [{name: _plain(value) for name, value in row.items()} for row in rows[:MAX_SOURCES]],
            "more": max(0, len(rows) - MAX_SOURCES),
            "rejections": self._rejections(),
            "losses": self._losses(),
        }

    def _rejections(self) -> list[dict[str, object]]:
        entries: Iterable[tuple[str, str, Rejection]] = (
            (status.name, reason, entry)
            for status in self._target.statuses.values()
            for reason, entry in status.rejections.items()
        )
        often = sorted(entries, key=lambda entry: -entry[2].count)[:MAX_ENTRIES]
        return [
            {"source": _plain(name), "count": entry.count, "reason": _plain(reason), "latest": _plain(entry.last.text)}
            for name, reason, entry in often
        ]

    def _losses(self) -> list[dict[str, object]]:
        losses = [(entry, status.name) for status in self._target.statuses.values() for entry in status.reconnections]
        latest = sorted(losses, key=lambda loss: -loss[0].lost)[:MAX_ENTRIES]
        return [
            {
                "lost": format_time(entry.lost // 1_000_000_000 * 1000),
                "source": _plain(name),
                "gap": "not yet again" if entry.gap is None else f"{entry.gap:.1f} s",
                "reason": _plain(entry.reason),
            }
            for entry, name in latest
        ]

    def _receive(self, content: dict[str, Any]) -> bool:
        if super()._receive(content):
            return True
        match content:
            case {"kind": "order", "order": str(order)} if order in self._actions:
                self._pump.soon(self._actions[order])
                self._pump.soon(self._pump.touch)
                return True
        return False


def _table(rows: list[dict[str, object]]) -> DisplayTable:
    names = tuple(rows[0])
    cells = tuple(tuple("" if row[name] is None else str(row[name]) for name in names) for row in rows)
    return DisplayTable(names, tuple(name in RIGHT for name in names), cells)
