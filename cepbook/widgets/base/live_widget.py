"""LiveWidget: the base of all live widgets, with frames, a static picture, and handles of the outputs that display it.

How often frames leave is decided in `FrameScheduler`. The traits of a widget are sent to a page that asks for them, and
after a message that tries to change them; that is not limited.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import anywidget
import traitlets

from cepbook.argument_checks import short_repr
from cepbook.errors import exception_text, printable, shorten_line
from cepbook.feeds import Feed
from cepbook.session import Progress, Replay
from cepbook.session.replay.replay import ENDED
from cepbook.widgets.base.frame_scheduler import FrameScheduler
from cepbook.widgets.base.static_picture import StaticPicture


def widget_script(module: str, *names: str) -> str:
    """Return the script of a widget: the shared scripts, then the files `names` beside the file `module`, as one text.

    One text, because the script of a widget is a single ES module.
    """
    return "\n".join((widget_asset(__file__, "hearing.js", "table.js"), widget_asset(module, *names)))


def widget_asset(module: str, *names: str) -> str:
    """Return the files `names` beside the file `module` as one text."""
    return "\n".join((Path(module).parent / name).read_text(encoding="utf-8") for name in names)


CLIENTS = 64  # the pages that a widget counts by name; more of them get frames, too
CLIENT_NAME = 64  # the maximum number of characters of the name that a page gives itself


class DisplayHandle(Protocol):
    """The result of `IPython.display.display(..., display_id=True)`."""

    def update(self, obj: object, *, raw: bool) -> None:
        """Replace the displayed output by `obj`, a mime bundle."""


Display = Callable[..., DisplayHandle | None]  # IPython.display.display, which this package does not import


class LiveWidget(anywidget.AnyWidget):
    """A widget that sends frames at display rate and has a static picture for the saved notebook.

    A subclass must implement `freeze`, `_mark` and `_build`; it may implement `_receive` and `_resume`. The thread in
    which messages arrive differs by ipykernel version, so `_receive` may only set flags, and the methods of the
    scheduler that messages call may be called in any thread. `_build` runs on the event loop, or inside `flush`.

    A page is not trusted. It can change no trait, and a message that makes no sense changes nothing: the answer is a
    message of the kind ``error``.
    """

    snapshot = traitlets.Unicode("").tag(sync=True)
    own = traitlets.Unicode("").tag(sync=True)  # the model id, by which hearing.js finds the model of the page

    def __init__(
        self,
        *,
        rate: float,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
        **traits: object,
    ) -> None:
        """Create a widget that sends at most `rate` frames per second.

        `spent` returns the processor time of the thread, from which the scheduler knows the cost of a frame.
        """
        self._handles: deque[DisplayHandle] = deque(maxlen=8)  # only the last displays are refreshed
        self._now = now
        self._clients: set[str] = set()  # the names of the pages that display the widget
        self._unnamed_clients = 0  # how many pages without a name display the widget
        self._has_uncounted_clients = False  # so many pages display the widget that not all are in `_clients`
        self._saved: object = None
        self._current_picture: StaticPicture | None = None
        self._replay: Replay[Any] | None = None
        self._unfollow: Callable[[], None] | None = None
        self._spent = spent
        self._pump = FrameScheduler(self._build, rate=rate, now=now, spent=spent)
        model_id = uuid4().hex
        super().__init__(model_id=model_id, own=model_id, **traits)
        self.on_msg(self._on_message)

    def freeze(self) -> StaticPicture:
        """Return the present state as plain HTML and text: the same for the same state of the engine."""
        raise NotImplementedError

    def _mark(self) -> object:
        """Return a value that is cheap to get and differs whenever the result of `freeze` would differ."""
        raise NotImplementedError

    def _build(self, number: int) -> bool:
        """Make and send frame `number` of the newest state; return False if nothing changed."""
        raise NotImplementedError

    def _receive(self, content: dict[str, Any]) -> bool | None:
        """Handle a message of a page, in an unknown thread. Return False for a message that makes no sense."""

    def _frame(self, number: int, *, answer: bool = False) -> dict[str, object]:
        """Return the head of frame `number`. With `answer` the page must acknowledge the frame.

        Otherwise the scheduler may mark the frame as ``quiet``, and the page does not acknowledge it.
        """
        quiet = not answer and self._pump.spare()
        return {"kind": "frame", "n": number, **({"quiet": True} if quiet else {})}

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame now if one is due and a page waits for it; return whether one was sent. Cheap if not.

        `urgent` sends even if the last frame left a moment ago (at the end of a replay).
        """
        if urgent:
            self._pump.touch()
        return self._pump.flush(urgent=urgent)

    @property
    def watched(self) -> bool:
        """True if a page displays the widget, as far as pages have reported."""
        return self._pump.is_open

    def show(self, display: Display) -> None:
        """Display the widget by `IPython.display.display`, so that `refresh_output` finds the output again.

        A closed widget is opened again.
        """
        if self.comm is None:
            self.layout.open()
            self.open()
            self._resume()
        self._saved = self._mark()
        data, _ = self._repr_mimebundle_()
        # The bundle and not the widget: IPython may be set up to call `show` for every widget that it displays.
        handle = display(data, raw=True, display_id=True)
        if handle is not None:
            self._handles.append(handle)

    def refresh_output(self) -> None:
        """Update open pages, and the saved notebook where `show` displayed the widget."""
        self.flush(urgent=True)
        self._saved = self._mark()
        with self._single_picture() as frozen:
            self.snapshot = frozen.html
            data, _ = self._repr_mimebundle_()
        for handle in self._handles:
            handle.update(data, raw=True)

    def refresh_if_stale(self) -> None:
        """Call `refresh_output` if the saved state is outdated and no running replay will do it."""
        busy = self._replay is not None and self._replay.progress.state == "running"
        if self._handles and not busy and self._mark() != self._saved:
            self.refresh_output()

    def follow(self, replay: Replay[Any]) -> None:
        """Send frames while `replay` runs, even when it blocks the event loop, and call `refresh_output` at its end."""
        self._stop_following_replay()
        self._replay = replay
        self._unfollow = replay.subscribe(lambda: self._on_slice(replay.progress))

    def _on_slice(self, progress: Progress) -> None:
        if progress.state in ENDED:
            self._stop_following_replay()
            self.refresh_output()
            self._saved = None  # `refresh_if_stale` refreshes again after the cell: see `cell_outputs.show_live`
        else:
            self.flush()

    def _stop_following_replay(self) -> None:
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = self._replay = None

    def close(self) -> None:
        """Close the widget; the static picture in the notebook stays."""
        self._stop_following_replay()
        self._pump.close()
        self._handles.clear()
        self._clients.clear()
        self._unnamed_clients = 0
        self._has_uncounted_clients = False
        if self.comm is not None:
            self.layout.close()
        super().close()
        for widget in (self, self.layout):
            widget.__dict__.pop("_repr_mimebundle_", None)  # ipywidgets puts None there

    def _resume(self) -> None:
        """Hook: subscribe to the workbench again, because the widget was closed and is displayed again."""

    def __repr__(self) -> str:
        return self._frozen().text

    def _frozen(self) -> StaticPicture:
        return self._current_picture if self._current_picture is not None else self.freeze()

    @contextmanager
    def _single_picture(self) -> Iterator[StaticPicture]:
        """Make the picture once, although snapshot, bundle and repr all contain it."""
        outer, self._current_picture = self._current_picture, self._frozen()
        try:
            yield self._current_picture
        finally:
            self._current_picture = outer

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        with self._single_picture() as frozen:
            static = {"text/plain": frozen.text, "text/html": frozen.html}
            bundle = super()._repr_mimebundle_(**kwargs) if self.comm is not None else None
        data, metadata = bundle if bundle is not None else ({}, {})  # None: closed, only the picture is left
        return {**data, **static}, metadata

    def set_state(self, sync_data: object) -> None:
        """Refuse a page's change of traits, which ipywidgets would accept. The page gets the values of the kernel."""
        names = [name for name in self.keys if isinstance(sync_data, dict) and name in sync_data]
        self._send_error("a page cannot change the widget")
        if names:
            self.send_state(names)

    def _handle_msg(self, msg: dict[str, Any]) -> None:
        """Handle a message of the comm. ipywidgets would print a traceback for one that makes no sense."""
        content = msg.get("content")
        match content.get("data") if isinstance(content, dict) else None:
            case {"method": "update", "state": state}:
                self.set_state(state)
            case {"method": "request_state"}:
                self.send_state()
            case {"method": "custom", "content": message}:
                self._on_message(self, message, ())
            case _:
                self._send_error("a message without a method")

    def _send_error(self, problem: str) -> None:
        self.send({"kind": "error", "message": f"this message changes nothing: {shorten_line(printable(problem))}"})

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        try:
            understood = isinstance(content, dict) and self._handle_content(content)
        except Exception as error:  # noqa: BLE001 - the page gets an answer
            self._send_error(exception_text(error))
            return
        if not understood:
            self._send_error(short_repr(content))

    def _handle_content(self, content: dict[str, Any]) -> bool:
        """Handle a message that every widget knows, or let the subclass `_receive` it. Return False for nonsense."""
        match content:
            case {"kind": "ack", "n": int(number)}:
                try:
                    self._receive(content)
                finally:  # without the acknowledgement the page would get no more frames
                    self._pump.ack(number)
                return True
            case {"kind": "ack"}:
                return False
            case {"client": client} if not _is_client(client):
                return False
            case {"kind": "hello"}:
                self._count_client(content.get("client") or "")
                try:
                    self._receive(content)
                finally:
                    self._pump.open()
                return True
            case {"kind": "bye"}:
                self._discount_client(content.get("client") or "")
                try:
                    self._receive(content)
                finally:
                    if not (self._clients or self._unnamed_clients or self._has_uncounted_clients):
                        self._pump.shut()
                return True
            case {"kind": str()}:
                return self._receive(content) is not False
        return False

    def _count_client(self, client: str) -> None:
        """Note that a page displays the widget. If a page is not counted, frames end when none is acknowledged."""
        if not self._pump.is_open:  # no page acknowledges frames, so those that are left were closed without a "bye"
            self._clients.clear()
            self._has_uncounted_clients = False
            self._unnamed_clients = 0
        if not client:
            self._unnamed_clients += 1
        elif len(self._clients) < CLIENTS:
            self._clients.add(client)
        elif client not in self._clients:
            self._has_uncounted_clients = True

    def _discount_client(self, client: str) -> None:
        """Note that a page no longer displays the widget."""
        if client:
            self._clients.discard(client)
        else:
            self._unnamed_clients = max(0, self._unnamed_clients - 1)


def _is_client(client: object) -> bool:
    return client is None or (isinstance(client, str) and len(client) <= CLIENT_NAME)


STATES = {"ready": "ready", "running": "live", "paused": "paused"}  # of a view, by those of a replay


class FeedView(LiveWidget):
    """A widget that displays the feed of one statement. `_follow_source` subscribes to the feed."""

    _feed: Feed | None = None
    _feed_number = 0  # of the feed in the order of those displayed: another instant or deployment has its own
    _unsubscribe: Callable[[], object] | None = None
    _state: str = "ready"
    _ended = 0  # deliveries at the end of the last replay

    def _follow_source(self) -> None:
        """Notice that the statement was dropped or deployed anew, and that a replay began."""
        raise NotImplementedError

    def _on_feed_changed(self) -> None:
        """Handle the news of the feed, which it gives once until it is read."""
        self._pump.touch()
        if self._replay is None and not self._pump.is_open:
            self._pump.soon(self._rearm)

    def _rearm(self) -> None:
        """Read the feed although no page does, so that a later replay is noticed."""
        if self._feed is not None and not self._pump.is_open:
            self._feed.heard()

    def _stop_following(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _on_slice(self, progress: Progress) -> None:
        self._take_state(progress)
        super()._on_slice(progress)

    def _take_state(self, progress: Progress) -> None:
        if self._state != "dropped":
            self._state = STATES.get(progress.state, "finished")
            if self._state == "finished" and self._feed is not None:
                self._ended = self._feed.deliveries

    def _on_glance(self) -> None:
        """Display another instant or range at once, whatever was due."""
        self._pump.touch()
        self.flush(urgent=True)

    def _resume(self) -> None:
        self._follow_source()
