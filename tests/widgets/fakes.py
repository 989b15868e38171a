"""A statement, a replay and a browser that are as simple as their protocols allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from cepbook.engine.inspection.visible_rows import LatestRows, WindowEvents
from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang.types import BY_NAME, Type
from cepbook.session.inspect.match_record import DeliveryMatches
from cepbook.session.inspect.partial_matches import PartialMatch, PartialMatches
from cepbook.widgets import StatementView
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.base.live_widget import LiveWidget
from cepbook.widgets.live_view.download import DownloadRequest
from cepbook.widgets.live_view.file_rows import FileRows
from cepbook.widgets.live_view.row_filter import NO_FILTER, RowFilter, SheetColumns
from cepbook.widgets.live_view.view_source import PartitionList

Row = dict[str, Any]


@dataclass
class FakeSheet:
    """A `Sheet` of rows that are there."""

    kept: list[Row]

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.kept[0]) if self.kept else ()

    def __len__(self) -> int:
        return len(self.kept)

    def column(self, name: str, start: int = 0) -> list[object]:
        return [row.get(name) for row in self.kept[start:]]

    def dropped_since(self, earlier: object) -> int | None:
        return None

    def rows(self, places: Iterable[int]) -> list[Row]:
        return [self.kept[place] for place in places]


@dataclass
class FakeStatement:
    """A `ViewSource` whose contents are plain attributes."""

    name: str = "out"
    epl: str = "select irstream symbol, price from Tick#length(2)"
    columns: Sequence[ViewColumn] = (ViewColumn("symbol", "string"), ViewColumn("price", "double"))
    feed: Feed = field(default_factory=lambda: Feed(1000))
    now: int = 0
    contents: list[Row] = field(default_factory=list)
    parts: dict[int, list[Row]] | None = None
    keeps_rows: bool = True
    delivers: bool = True
    reads: int = 0
    dropped: bool = False
    replaying: FakeReplay | None = None
    nested: list[Row] | None = None  # partitions as they are, in place of `parts`
    levels: Sequence[str] = ()
    tags: Sequence[str] | None = None
    waiting: list[PartialMatch] = field(default_factory=list)
    watched: bool = False
    matches: dict[int, DeliveryMatches] = field(default_factory=dict)
    counted: bool = False
    results: str | None = None
    times: frozenset[str] = frozenset()
    held: list[Row] = field(default_factory=list)
    repeatable: bool = False

    def missed(self) -> str:
        return ""

    @property
    def fed_by(self) -> Sequence[Feed]:
        return ()

    @property
    def traced(self) -> bool:
        return self.tags is not None

    def partials(self, partition: int | None = None) -> PartialMatches:
        self.reads += 1
        found = [one for one in self.waiting if partition in (None, one.partition)]
        return PartialMatches(len(found), tuple(found))

    def why(self, delivery: int, behind: int, insert: bool) -> str:
        self.reads += 1
        return f"<p>{delivery} {behind} {insert}</p>"

    second = 1000

    @property
    def recorded(self) -> tuple[Feed, int | None]:
        return self.feed, None

    def file_rows(self, request: DownloadRequest) -> Callable[[], FileRows]:
        self.reads += 1
        if self.dropped:
            raise UsageError("it is gone")
        types: dict[str, Type] = {column.name: BY_NAME[column.type] for column in self.columns}
        return partial(request.rows.of_sheet, FakeSheet(self.contents), types, ())

    past = False
    counted_since = None
    ticking = False

    def on_glance(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        """Nobody scrubs, and the replay is the one there is."""

    def pulse(self) -> object:
        return len(self.waiting)

    def watch(self, looking: bool) -> None:
        self.watched = looking

    def matches_of(self, delivery: int) -> DeliveryMatches | None:
        return self.matches.get(delivery)

    def replay(self) -> FakeReplay | None:
        return self.replaying

    def clock(self) -> int:
        return self.now

    def ms(self, time: int) -> int:
        return time

    def all_ms(self, times: Sequence[int]) -> Sequence[int]:
        return times

    def every(self, partition: int | None = None) -> FakeSheet:
        self.reads += 1
        if self.dropped:
            raise UsageError("no statement out")
        return FakeSheet(self.contents if partition is None else (self.parts or {}).get(partition, []))

    def every_event(self, partition: int | None = None) -> FakeSheet:
        return FakeSheet(self.held)

    def latest(self, most: int, partition: int | None = None, shown: range | None = None) -> LatestRows:
        rows = self.every(partition).kept
        return LatestRows(len(rows), rows[-most:][_slice(shown)])

    def events(self, most: int, partition: int | None = None, shown: range | None = None) -> WindowEvents:
        return WindowEvents(len(self.held), tuple(self.held[0]) if self.held else (), self.held[-most:][_slice(shown)])

    def count(self, looking: bool) -> None:
        self.counted = looking

    @property
    def partitioned(self) -> bool:
        return self.parts is not None or self.nested is not None

    def partitions(
        self, most: int | None = None, choice: RowFilter = NO_FILTER, shown: range | None = None
    ) -> PartitionList:
        found = self.nested
        if found is None:
            parts = self.parts or {}
            found = [{"id": i, "symbol": rows[0]["symbol"], "events": len(rows)} for i, rows in parts.items()]
        sheet = FakeSheet(found)
        columns = SheetColumns(sheet)
        asked = choice.found(columns, ("id", "symbol")).places
        kept = choice.first(columns, asked, len(found) if most is None else most).tolist()
        return PartitionList(len(found), sheet.rows(kept[_slice(shown)]), len(asked))

    def tick(self, n: int = 1) -> None:
        for _ in range(n):
            self.now += 1000
            self.feed.push(self.now, [{"symbol": "A", "price": self.now / 1000}], None)


def _slice(shown: range | None) -> slice:
    return slice(None) if shown is None else slice(shown.start, shown.stop)


@dataclass
class FakeReplay:
    """A replay that does nothing but remember its orders."""

    events: int = 0
    total: int | None = 10
    clock: int = 0
    state: str = "ready"
    behind: float = 0.0
    estimate: int | None = None
    late: int = 0
    errors: int = 0
    orders: list[str] = field(default_factory=list)
    subscribers: list[Callable[[], object]] = field(default_factory=list)

    @property
    def progress(self) -> FakeReplay:
        return self

    def pause(self) -> None:
        self.orders.append("pause")

    def resume(self) -> None:
        self.orders.append("resume")

    def step(self, n: int = 1) -> None:
        self.orders.append(f"step {n}")

    def stop(self) -> None:
        self.orders.append("stop")

    workbench = None
    span = None
    speed: float | None = None

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        self.subscribers.append(fn)
        return lambda: self.subscribers.remove(fn)

    def slice(self, events: int, state: str = "running") -> None:
        self.events, self.clock, self.state = self.events + events, self.clock + 1000 * events, state
        for fn in tuple(self.subscribers):
            fn()


class FakeTime:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.value = 100.0

    def __call__(self) -> float:
        return self.value


class FakeBrowser:
    """Catches what a widget sends, and answers like a page; `drawn` is what a page would show of the stream."""

    def __init__(self, widget: LiveWidget) -> None:
        self.widget = widget
        self.frames: list[dict[str, Any]] = []
        self.buffers: list[list[bytes]] = []
        widget.send = self._take  # type: ignore[method-assign,assignment]

    def _take(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        self.frames.append(content)
        self.buffers.append(buffers or [])

    def say(self, **content: object) -> None:
        self.widget._on_message(self.widget, content, [])

    def hello(self) -> None:
        self.say(kind="hello")

    def ack(self) -> None:
        last = next(frame for frame in reversed(self.frames) if "n" in frame)
        if not last.get("quiet"):
            self.say(kind="ack", n=last["n"])

    def show(self, pane: str, partition: int | None = None, client: str = "c") -> None:
        self.say(kind="show", client=client, pane=pane, partition=partition)


class FakeHandle:
    """A display handle that remembers what it was asked to show."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def update(self, obj: object, *, raw: bool, **options: object) -> None:
        assert raw
        self.shown.append(obj)

    def display(self, obj: object, *, raw: bool, display_id: bool | str, **options: object) -> FakeHandle:
        """Stands for `IPython.display.display`."""
        assert raw and display_id
        self.shown.append(obj)
        return self

    @property
    def texts(self) -> list[str]:
        """The first line of every bundle, in the order in which they were shown."""
        return [bundle["text/plain"].splitlines()[0] for bundle in self.shown]


def decoded(column: dict[str, Any], parts: Sequence[bytes]) -> list[Any]:
    """What table.js makes of a column."""
    kind = column["k"]
    widths: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    dtype = widths[column["w"]] if "w" in column else {"num": np.float64, "bool": np.uint8}[kind]
    raw = np.frombuffer(parts[column["b"]], dtype=dtype).tolist()
    if kind == "text":
        return [column["d"][code - 1] if code else None for code in raw]
    values: list[Any] = [v == 1 for v in raw] if kind == "bool" else [v + column.get("o", 0) for v in raw]
    if "n" not in column:
        return values
    nulls = np.frombuffer(parts[column["n"]], dtype=np.uint8)
    return [None if null else value for value, null in zip(values, nulls, strict=True)]


def opened(source: FakeStatement | None = None, **options: Any) -> tuple[FakeStatement, StatementView, FakeBrowser]:
    """A statement, its view and a browser that has said hello; time stands still unless `now` is given."""
    source = source or FakeStatement()
    now = options.pop("now", None) or FakeTime()
    view = StatementView(source, **{"now": now, "spent": now, **options})
    browser = FakeBrowser(view)
    browser.hello()
    return source, view, browser
