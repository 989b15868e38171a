"""A replay while it runs: the view follows it, and the buttons of its control are obeyed although the cell is busy."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import _FINISHED, take_picture, write_notebook

CELLS = [
    "%load_ext cepbook\n"
    "import pandas as pd\n"
    "ticks = pd.DataFrame({'time': range(0, 600_000, 100), 'symbol': ['A', 'B', 'C'] * 2_000})\n"
    "cep.define('Tick', ticks, time='time');",
    "%%epl\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "@name('counts') context PerSymbol select irstream context.key1 as symbol, count(*) as ticks from Tick#time(5 sec)",
    # At this speed the 6,000 events take 40 seconds, so the test is always faster.
    "replay = cep.replay(ticks, type='Tick', speed=15)\nlive = %view counts\ndisplay(replay, live)\nawait replay",
]
DATA_ROW = "[role=row]:has([role=gridcell])"
# Without waiting for the end of the cells.
_RUN = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
# The number in the chip of the view that counts insert rows.
_INSERTED = "() => Number(document.querySelector('.cv-plus .cv-count')?.textContent.replaceAll(',', '') ?? 0)"


def test_live_replay(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "live.ipynb", CELLS)
    with open_lab("live.ipynb") as notebook:
        page = notebook.page
        page.evaluate(_RUN)
        control = page.locator(".cepbook-progress")
        view = page.locator(".cepbook-view")
        control.wait_for()
        expect(control).to_have_attribute("data-state", "running")
        page.wait_for_function(f"() => ({_INSERTED})() > 0")
        running = page.evaluate(_INSERTED)
        page.wait_for_function(f"n => ({_INSERTED})() > n", arg=running)

        control.get_by_role("button", name="Pause").click()
        expect(control).to_have_attribute("data-state", "paused")
        expect(view.locator(".cv-state")).to_have_text("paused")
        inserted = page.evaluate(_INSERTED)
        page.wait_for_timeout(600)
        assert page.evaluate(_INSERTED) == inserted, "rows came while the replay was paused"

        view.get_by_role("tab", name="Partitions").click()
        partitions = view.get_by_role("tabpanel", name="Partitions").locator(DATA_ROW).filter(visible=True)
        expect(partitions).to_have_count(3)
        notebook.cell(2)
        page.screenshot(path=screenshot_dir / "live_replay.png")

        control.get_by_role("button", name="Resume").click()
        page.wait_for_function(f"n => ({_INSERTED})() > n", arg=inserted)
        control.get_by_role("button", name="Stop").click()
        expect(control).to_have_attribute("data-state", "stopped")
        page.wait_for_function(_FINISHED)
        assert notebook.errors() == []
        assert "events stopped, clock" in notebook.cells()[2]["outputs"][-1]["data"]["text/plain"]
        assert (notebook.external, notebook.page_errors) == ([], [])


BLOCKING = [
    *CELLS[:2],
    "%view counts",
    "cep.rewind()\ncep.replay(ticks, type='Tick').run()",
    "cep.rewind()\ncep.replay(ticks, type='Tick', speed=15).run()",
]


def test_a_replay_that_holds_the_kernel_is_followed_and_interrupted(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    """The second one too, whose cell begins anew: no "finished" while it runs, no traceback when it is stopped.

    The kernel that begins it before it has heard of the page is told of.
    """
    write_notebook(lab_root / "blocking.ipynb", BLOCKING)
    with open_lab("blocking.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(4))
        state = page.locator(".cepbook-view .cv-state")
        expect(state).to_have_text("finished")
        notebook.run_cell(4, wait=False)
        expect(state).to_have_text("live")
        page.wait_for_function(f"() => 0 < ({_INSERTED})() && ({_INSERTED})() < 6000")
        running = "window.cepbookPanel.content.widgets[4].model.executionState === 'running'"
        assert page.evaluate(f"() => {running}")  # the kernel is idle for a moment whenever it has heard the page
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
        page.wait_for_function(f"() => !({running})")
        expect(state).to_have_text("paused")
        output = notebook.cell(4).locator(".jp-OutputArea")
        expect(output).to_contain_text("interrupted: the replay is paused at")
        assert "Traceback" not in output.inner_text() and "KeyboardInterrupt" not in output.inner_text()
        page.evaluate(_RUN)  # all cells at once: the kernel is busy from when the view is displayed on
        expect(state).to_have_text("no answer from the kernel")
        take_picture(notebook.cell(2), screenshot_dir / "blocking-unheard.png")
        page.wait_for_function("() => window.cepbookPanel.content.widgets[3].model.executionState !== 'running'")
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
        expect(state).to_have_text("paused")
        assert (notebook.external, notebook.page_errors) == ([], [])


LAGGING = [
    *CELLS[:2],
    "import time\ncep.on('counts', lambda delta: time.sleep(0.02))",
    "replay = cep.replay(ticks, type='Tick', speed=600)\ndisplay(replay)\nawait replay",
]


def test_a_replay_that_cannot_keep_its_speed_says_so_and_is_interrupted(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    """By the stop button of the kernel, while its cell awaits it: paused then, and no exception of asyncio shows."""
    write_notebook(lab_root / "lagging.ipynb", LAGGING)
    with open_lab("lagging.ipynb") as notebook:
        page = notebook.page
        page.evaluate(_RUN)
        bar = page.locator(".cepbook-progress")
        expect(bar.locator(".cp-line").first).to_contain_text("s behind the wall clock")
        expect(bar.locator(".cp-state")).to_have_text("running")
        page.set_viewport_size({"width": 640, "height": 1000})
        take_picture(notebook.cell(3), screenshot_dir / "lagging-640.png")
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
        expect(bar).to_have_attribute("data-state", "paused")
        output = notebook.cell(3).locator(".jp-OutputArea")
        expect(output).to_contain_text("interrupted: the replay is paused at")
        assert "Cancelled" not in output.inner_text() and "Traceback" not in output.inner_text()
        bar.get_by_role("button", name="Stop").click()
        expect(bar).to_have_attribute("data-state", "stopped")
        assert (notebook.external, notebook.page_errors) == ([], [])


# anywidget gives up a model whose module took two seconds to load, and lets it hear nothing then.
_HASTE = """() => {
    const patient = AbortSignal.timeout;
    AbortSignal.timeout = () => patient.call(AbortSignal, 0);
    window.cepbookPatient = () => { AbortSignal.timeout = patient; };
}"""


def test_a_page_that_started_too_slowly_hears_the_kernel_all_the_same(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    write_notebook(lab_root / "late.ipynb", [*CELLS, "%epl map", "%cep"])
    with open_lab("late.ipynb") as notebook:
        page = notebook.page
        page.evaluate(_HASTE)
        try:
            page.evaluate(_RUN)
            control, view = page.locator(".cepbook-progress"), page.locator(".cepbook-view")
            expect(control).to_have_attribute("data-state", "running", timeout=30_000)
            page.wait_for_function(f"() => ({_INSERTED})() > 0")
            expect(view.locator(".cv-state")).to_have_text("live")
            page.screenshot(path=screenshot_dir / "late.png")
            control.get_by_role("button", name="Stop").click()
            page.wait_for_function(_FINISHED)
            expect(notebook.cell(3).locator(".cepbook-flow [data-node]").first).to_be_attached()
            expect(notebook.cell(4).locator(".cepbook-panel .cc-list")).to_contain_text("counts")
        finally:
            page.evaluate("() => window.cepbookPatient()")
        assert (notebook.errors(), notebook.external) == ([], [])
        assert any("Failed to initialize model" in error for error in notebook.page_errors)
        assert all("Failed to initialize model" in error for error in notebook.page_errors)
        notebook.page_errors.clear()


def test_a_bar_that_hears_nothing_says_so(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    """While the kernel is busy with other things: not "ready" for ever."""
    busy = "replay = cep.replay(ticks, type='Tick')\ndisplay(replay)\nimport time\ntime.sleep(8)"
    write_notebook(lab_root / "unheard.ipynb", [*CELLS[:2], busy])
    with open_lab("unheard.ipynb") as notebook:
        page = notebook.page
        page.evaluate(_RUN)
        bar = page.locator(".cepbook-progress")
        expect(bar).to_have_attribute("data-state", "silent", timeout=30_000)
        expect(bar.locator(".cp-state")).to_have_text("no answer from the kernel")
        page.screenshot(path=screenshot_dir / "unheard.png")
        expect(bar).to_have_attribute("data-state", "finished", timeout=30_000)
        page.wait_for_function(_FINISHED)
        assert (notebook.errors(), notebook.external, notebook.page_errors) == ([], [], [])
