"""What the output of a cell held is let go of when the cell is run again."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets.widgets.widget import _instances

from cepbook.session import Workbench
from cepbook.widgets import cell_outputs, show_live, view
from cepbook.widgets.charts.chart_view import chart
from cepbook.widgets.map.flow_map import FlowMap
from cepbook.widgets.panel.workbench_panel import panel
from cepbook.widgets.tuner import Tuner
from tests.waiting import until
from tests.widgets.fakes import FakeBrowser

EPL = """create schema Tick(price double, ts long); create variable double least = 0;
@name('out') select * from Tick(price >= least)#length(5)"""
EVENTS = [{"price": float(n), "ts": 1000 * n} for n in range(5)]


class Notebook:
    """Cells with ids, as JupyterLab sends them; what displays anything displays it for nobody."""

    def __init__(self) -> None:
        self.cep = Workbench()
        self.cep.run(EPL)
        self.shell = InteractiveShell()
        self.shown: list[object] = []
        self.updates = 0
        self.undo = show_live(self.shell, self._display)
        self.shell.user_ns.update(
            cep=self.cep, view=view, FlowMap=FlowMap, panel=panel, Tuner=Tuner, chart=chart,
            show=self.shell.display_formatter.format, events=EVENTS,
        )  # fmt: skip

    def _display(self, obj: object, **_: object) -> Notebook:
        self.shown.append(obj)
        return self

    def update(self, _obj: object, **_: object) -> None:
        self.updates += 1

    def run(self, cell: str, code: str) -> None:
        self.shell.run_cell(code, cell_id=cell, store_history=True).raise_error()


@pytest.fixture
def notebook() -> Any:
    before = set(_instances)
    made = Notebook()
    yield made
    made.undo()
    for each in [widget for key, widget in _instances.items() if key not in before]:
        each.close()


def kinds() -> Counter[str]:
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


REPLAY = "cep.rewind()\nreplay = cep.replay(events, 'Tick', 'ts', keep=True)\nshow(replay)\nended = replay.run()"


@pytest.mark.histories
def test_thirty_replays_leave_nothing_behind(notebook: Notebook) -> None:
    for code in ("show(view(cep, 'out'))", "show(FlowMap(cep))", "show(panel(cep))"):
        notebook.run(code, code)
    for _ in range(3):
        notebook.run("replay", REPLAY)
    widgets, before = len(_instances), kinds()
    for _ in range(30):
        notebook.run("replay", REPLAY)
    assert len(_instances) == widgets
    grown = {name: count - before[name] for name, count in kinds().items() if count - before[name] >= 30}
    # what IPython keeps of a cell is not ours
    ours = {
        name: count for name, count in grown.items() if name.startswith(("cepbook", "ipywidgets", "pandas", "numpy"))
    }
    assert ours == {}


@pytest.mark.parametrize(
    "code",
    [
        "show(view(cep, 'out'))",
        "show(FlowMap(cep))",
        "show(panel(cep))",
        "show(Tuner(cep, ['out']))",
        "show(chart(cep, 'out'))",
    ],
)
def test_a_cell_that_is_run_again_lets_go_of_what_it_showed(notebook: Notebook, code: str) -> None:
    notebook.cep.replay(EVENTS, "Tick", "ts").run()
    notebook.run("c", code)
    widgets = len(_instances)
    listening = len(notebook.cep.feed("out")._subscribers) if hasattr(notebook.cep.feed("out"), "_subscribers") else 0
    for _ in range(5):
        notebook.run("c", code)
    assert len(_instances) == widgets
    if listening:
        assert len(notebook.cep.feed("out")._subscribers) == listening
    notebook.run("c", "1")
    assert len(_instances) == widgets - (widgets - len(set(_instances)))


def test_what_another_cell_shows_as_well_stays(notebook: Notebook) -> None:
    notebook.run("a", "v = view(cep, 'out')\nshow(v)")
    v = notebook.shell.user_ns["v"]
    notebook.run("b", "show(v)")
    notebook.run("a", "1")
    assert v.comm is not None
    notebook.run("b", "1")
    assert v.comm is None


def test_what_was_closed_lives_again_when_it_is_shown_again(notebook: Notebook) -> None:
    notebook.run("a", "v = view(cep, 'out')\nshow(v)")
    v = notebook.shell.user_ns["v"]
    number = v.model_id
    notebook.run("a", "1")
    assert v.comm is None and v._feed is None
    notebook.run("b", "2")  # whose end brings up to date what is shown: that is nothing
    notebook.cep.send("Tick", price=1.0, ts=1)
    notebook.run("b", "show(v)")
    assert v.model_id == number and v.layout.comm is not None
    browser = FakeBrowser(v)
    browser.hello()
    notebook.cep.send("Tick", price=2.0, ts=1)
    assert v.flush(urgent=True)
    assert browser.frames[-1]["counts"] == {"inserted": 2, "removed": 0}


def test_a_replay_is_shown_again_by_a_bar_of_its_own(notebook: Notebook) -> None:
    notebook.run("a", "replay = cep.replay(events, 'Tick', 'ts', paused=True)\nshow(replay)")
    notebook.run("a", "show(replay)\nreplay.run()")
    assert notebook.updates >= 1, "the bar that is there now was brought up to date at the end"


def test_without_ids_of_cells_there_is_a_bound(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_outputs, "MAX_LIVE_OUTPUTS", 10)
    before = len(_instances)
    notebook.shell.run_cell("seen = view(cep, 'out')\nshow(seen)")
    FakeBrowser(notebook.shell.user_ns["seen"]).hello()
    for _ in range(30):
        notebook.shell.run_cell("show(view(cep, 'out'))")
    assert len(_instances) - before <= 2 * 11
    assert notebook.shell.user_ns["seen"].comm is not None, "a page shows it"


def test_a_closed_widget_is_no_trouble_to_the_next_cell(notebook: Notebook) -> None:
    notebook.run("a", "v = view(cep, 'out')\nshow(v)\nv.close()")
    notebook.cep.send("Tick", price=1.0, ts=1)
    notebook.run("b", "1")
    assert notebook.updates == 0


def test_replays_keep_snapshots_only_up_to_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.session.replay_mixin.MAX_SNAPSHOT_BYTES", 1)
    cep = Workbench()
    cep.run(EPL)
    first = cep.replay(EVENTS, "Tick", "ts", keep=1)
    first.run()
    assert first.span == (0, 4000)
    later = cep.replay([{"price": 1.0, "ts": 5000}], "Tick", "ts", keep=1)
    later.run()
    assert first.span is None and "later replays keep snapshots" in first.lacks
    assert later.span is not None and first.progress.events == 5


def test_a_replay_that_has_ended_holds_no_events() -> None:
    cep = Workbench()
    cep.run(EPL)
    replay = cep.replay(EVENTS, "Tick", "ts", limit=3)
    total = replay.progress.total
    replay.stop()
    assert (replay.progress.total, replay._replay_loop.sources) == (total, ())
    assert repr(replay).startswith("Replay of Tick: ")


class Kernel:
    """A kernel with its present request: `allow_stdin` says whether somebody answers questions."""

    def __init__(self, *, allow_stdin: bool) -> None:
        self.request = {"content": {"allow_stdin": allow_stdin}}

    def get_parent(self) -> dict[str, Any]:
        return self.request


@pytest.mark.parametrize(
    ("cell", "allow_stdin", "voila", "live"),
    [("c1", False, False, True), (None, True, False, True), (None, False, True, True), (None, False, False, False)],
)
def test_programs_that_execute_a_notebook_get_the_picture(
    cell: str | None, allow_stdin: bool, voila: bool, live: bool, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    if voila:
        monkeypatch.setenv("VOILA_KERNEL_ID", "1")
    monkeypatch.setattr(notebook.shell, "kernel", Kernel(allow_stdin=allow_stdin), raising=False)
    for line in ("show(view(cep, 'out'))", "show(Tuner(cep, ['out']))"):
        notebook.shell.run_cell(line, cell_id=cell, store_history=True).raise_error()
    bundles = [each for each in notebook.shown if isinstance(each, dict)]
    assert len(bundles) == 2 and all({"text/html", "text/plain"} <= each.keys() for each in bundles)
    assert [cell_outputs.WIDGET_MIME in each for each in bundles] == [live, live]


@pytest.mark.histories
def test_nbconvert_shows_what_it_executed(tmp_path: Path) -> None:
    """Without a browser, and without scripts from elsewhere: what views, the map and the controls show, as they are at
    the end."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat comes with JupyterLab (extra `lab`)")
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert comes with JupyterLab (extra `lab`)")
    from nbclient import NotebookClient

    replay = f"replay = cep.replay({EVENTS!r}, type='Tick', time='ts')\ndisplay(replay)\nawait replay"
    awaited = "await cep.replay([{'price': 7.0, 'ts': 5000}], type='Tick', time='ts')"
    cells = ["%load_ext cepbook", f"%%epl\n{EPL}", "%view out", "%epl map", replay, "%epl tune out", awaited]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(made, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    html, _ = nbconvert.HTMLExporter().from_notebook_node(made)
    body = html[html.index("<body") :]
    assert cell_outputs.WIDGET_MIME not in body
    for shown in ("out: 6 insert rows", "holds 5", "controls of least"):
        assert shown in body, shown
    ended = ["5 of 5 events, clock 00:00:04.000", "1 of 1 events, clock 00:00:05.000"]
    assert [body.count(f"<div>replay finished: {end}</div>") for end in ended] == [1, 1]


def texts(notebook: Notebook) -> list[str]:
    return [str(bundle["text/plain"]) for bundle in notebook.shown if isinstance(bundle, dict)]


def test_live_sources_are_followed_to_their_end(notebook: Notebook) -> None:
    """Whoever does not look at them again is told all the same that a source failed."""

    async def ticks() -> AsyncIterator[dict[str, float]]:
        yield {"price": 1.0}
        await asyncio.sleep(0)
        yield {"price": 2.0}
        raise ConnectionError("the feed is \u202e gone")

    async def scenario() -> None:
        notebook.shell.user_ns["live"] = live = notebook.cep.live({"Tick": ticks()})
        notebook.shell.user_ns["show"](live)
        assert texts(notebook)[-1] == repr(live) and "0 events, running" in repr(live)
        await until(lambda: "Live of Tick: 2 events, failed" in texts(notebook)[-1])

    notebook.update = lambda obj, **_: notebook.shown.append(obj)  # type: ignore[method-assign]
    asyncio.run(scenario())
    told = notebook.shown[-1]
    assert isinstance(told, dict)
    reason = told["text/plain"].split("\n")[1].strip()
    assert reason == "the source of Tick failed: ConnectionError('the feed is \\u202e gone')"
    count = len(notebook.shown)
    notebook.shell.user_ns["show"](notebook.shell.user_ns["live"])  # that have ended: nothing follows
    assert len(notebook.shown) == count + 1


def test_a_terminal_prints_an_object_again_only_if_it_has_changed() -> None:
    printed: list[object] = []

    class Handle:
        def update(self, obj: Any, *, raw: bool) -> None:
            printed.append(obj["text/plain"])

    def display(obj: Any, **_: object) -> Handle:
        printed.append(obj["text/plain"])
        return Handle()

    handle = cell_outputs.PrintedDisplay(display)({"text/plain": "a"}, raw=True)
    assert handle is not None
    for text in "abbba":
        handle.update({"text/plain": text}, raw=True)
    assert printed == ["a", "b", "a"]
