"""LiveControl: live sources with their rates, ages, rejected items and lost connections, to pause and to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

from cepbook.display import DisplayTable, captioned_html, format_count, format_time, truncate
from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.base.control import ControlWidget, control_script, control_style
from cepbook.widgets.base.static_picture import StaticPicture

MAX_SOURCES = 50  # the most sources that are displayed
MAX_ENTRIES = 20  # the most reasons of rejected items, and the most lost connections, that are displayed
SAVED_COLUMNS = ("source", "state", "events", "late", "buffered", "rejected", "reconnections", "note")
"""The columns that do not change while nothing arrives."""
RIGHT = {"events", "late", "buffered", "rejected", "reconnections", "count", "gap"}


def _short_line(value: object) -> object:
    """Return a value of a table for the page: texts as one short line without unprintable characters."""
    return truncate(" ".join(value.split())) if isinstance(value, str) else value


class LiveControl(ControlWidget):
    """Table and buttons of live sources. It reads them at most `rate` times per second.

    When all sources have ended, the saved output is updated (see `LiveWidget.show`).
    """

    _esm = control_script(__file__, "live_control.js")
    _css = control_style(__file__, "live_control.css")

    def __init__(self, live: Live, *, rate: float = 2.0, now: Callable[[], float] = time.monotonic) -> None:
        self._target = live
        self._actions = {"pause": live.pause, "resume": live.resume, "stop": self._stop}  # by order of the page
        self._cancel_on_end: Callable[[], None] | None = None
        super().__init__(rate=rate, now=now)
        self._resume()

    def _resume(self) -> None:
        if not self._ended and self._cancel_on_end is None:
            self._cancel_on_end = self._target.on_end(self._on_end)

    def _on_end(self) -> None:
        self.refresh_output()
        self._saved = None  # so that `refresh_if_stale` updates the output again after the cell

    def _stop(self) -> None:
        with suppress(Exception):  # the notes have what keeps the last events out of the engine
            self._target.stop()

    def close(self) -> None:
        """Close the widget; the static picture in the notebook stays."""
        if self._cancel_on_end is not None:
            self._cancel_on_end()
            self._cancel_on_end = None
        super().close()

    @property
    def _ended(self) -> bool:
        return self._target.ended

    def freeze(self) -> StaticPicture:
        """Return the sources as text and HTML, without rates and ages."""
        text = repr(self._target)
        head, *notes = text.split("\n")
        rows = [{name: row[name] for name in SAVED_COLUMNS} for row in self._target.rows()]
        (rejections, reasons), (losses, lost) = self._rejections(), self._losses()
        parts = [f"<div>{escape(head)}</div>", *(f"<div>{escape(note.strip())}</div>" for note in notes)]
        tables = (
            ("sources", rows[:MAX_SOURCES], len(rows)),
            ("reasons of rejected items", rejections, reasons),
            ("lost connections", losses, lost),
        )
        for caption, entries, count in tables:
            if entries:
                cut = f"{len(entries)} of {count:,} " if len(entries) < count else ""
                parts.append(captioned_html(cut + caption, _table(entries)))
        return StaticPicture("".join(parts), text)

    def _mark(self) -> object:
        return repr(self._target), tuple(status.state for status in self._target.statuses.values())

    def _state(self) -> dict[str, object]:
        live = self._target
        rows, missing = live.rows(), live.missing
        (rejections, reasons), (losses, lost) = self._rejections(), self._losses()
        notes = [live.reason, *live.troubles]
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
            "note": "; ".join(str(_short_line(note)) for note in notes if note),
            "sources": [{name: _short_line(value) for name, value in row.items()} for row in rows[:MAX_SOURCES]],
            "more": max(0, len(rows) - MAX_SOURCES),
            "rejected": sum(row["rejected"] for row in rows),
            "reasons": reasons,
            "rejections": rejections,
            "lost": lost,
            "losses": losses,
        }

    def _rejections(self) -> tuple[list[dict[str, object]], int]:
        """Return the most frequent reasons of rejected items, and the number of all reasons."""
        entries = [
            (status.name, reason, entry)
            for status in self._target.statuses.values()
            for reason, entry in status.rejections.items()
        ]
        often = sorted(entries, key=lambda entry: -entry[2].count)[:MAX_ENTRIES]
        return [
            {
                "source": _short_line(name),
                "count": entry.count,
                "reason": _short_line(reason),
                "latest": _short_line(entry.last.text),
            }
            for name, reason, entry in often
        ], len(entries)

    def _losses(self) -> tuple[list[dict[str, object]], int]:
        """Return the latest lost connections, and the number of all."""
        losses = [(entry, status.name) for status in self._target.statuses.values() for entry in status.reconnections]
        latest = sorted(losses, key=lambda loss: -loss[0].lost)[:MAX_ENTRIES]
        return [
            {
                "lost (UTC)": format_time(entry.lost // 1_000_000_000 * 1000),
                "source": _short_line(name),
                "gap": "not reconnected" if entry.gap is None else f"{entry.gap:.1f} s",
                "reason": _short_line(entry.reason),
            }
            for entry, name in latest
        ], sum(status.lost for status in self._target.statuses.values())

    def _receive(self, content: dict[str, Any]) -> bool:
        if super()._receive(content):
            return True
        match content:
            case {"kind": "order", "order": str(order)} if order in self._actions:
                return self._pump.soon(self._actions[order]) and self._pump.soon(self._pump.touch)
        return False


def _table(rows: list[dict[str, object]]) -> DisplayTable:
    names = tuple(rows[0])
    cells = tuple(tuple("" if row[name] is None else str(row[name]) for name in names) for row in rows)
    return DisplayTable(names, tuple(name in RIGHT for name in names), cells)
