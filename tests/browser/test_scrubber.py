"""The bar under a replay: dragging shows a past instant in all views, without disturbing the run."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import HEIGHT, WIDTH, settled, take_picture, write_notebook
from tests.browser.test_themes import change_theme

HOSTILE = "<img src=x onerror=alert(1)>"
CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "create context PerSymbol partition by symbol from Tick;\n"
    "@name('sums') context PerSymbol select symbol, sum(price) as total from Tick#time(1 sec);\n"
    "@name('prices') select price from Tick;\n"
    "@name('" + HOSTILE + "') select * from Tick(price % 500 = 0)",
    f"names = ['A', '{HOSTILE}', '\\u202ertl\\u0007' + 'x' * 1_000_000]\n"
    "ticks = [{'time': i * 100, 'symbol': names[i % 3], 'price': float(i)} for i in range(3000)]\n"
    "replay = cep.replay(ticks, type='Tick', time='time')\n"
    "live = %view sums\ndisplay(replay, live)\nawait replay",
    "%view --chart prices",
    "again = cep.replay([{'time': 300_000 + i * 100, 'symbol': 'A', 'price': 1.0 * i} for i in range(1000)],\n"
    "    type='Tick', time='time', paused=True)\nagain",
]
DRIVEN = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Tick(symbol string, price double);\n"
    "@name('sums') select symbol, sum(price) as total from Tick#time(10 sec) group by symbol;\n"
    "@name('every10') select price from Tick(price % 10 = 0)",
    "def failing(delta):\n    raise ValueError('a listener fails')\n"
    "cep.on('sums', failing)\n"
    "ticks = [{'time': i * 100, 'symbol': 'AB'[i % 2], 'price': float(i)} for i in range(20_000)]\n"
    "replay = cep.replay(ticks, type='Tick', time='time', speed=12)\n"
    "live = %view sums\ndisplay(replay, live)",
    "await replay",
    "cep.run(\"@name('fewer') select price from Tick(price % 100 = 0)\")\n%view fewer",
    "cep.rewind()\nonce = cep.replay(iter(ticks[:50]), type='Tick', time='time')\ndisplay(once)\nawait once",
]
DRAG = "(node, at) => { node.value = at; node.dispatchEvent(new Event('input')); }"
INTERRUPT = "() => window.cepbookPanel.sessionContext.session.kernel.interrupt()"
INSIDE = """node => [...node.querySelectorAll('button, input, select')]
    .every(each => each.getBoundingClientRect().right <= innerWidth)"""


def drag(control: Locator, time: int) -> None:
    control.locator(".cp-range").evaluate(DRAG, time)


def test_the_past_is_looked_at(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "scrub.ipynb", CELLS)
    with open_lab("scrub.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(4))
        chart = notebook.cell(3).locator(".cepbook-chart")
        chart.wait_for()
        notebook.cell(2).scroll_into_view_if_needed()
        control, view = (notebook.cell(2).locator(name) for name in (".cepbook-progress", ".cepbook-view"))
        expect(control).to_have_attribute("data-state", "finished")
        expect(control.locator("select")).to_have_value("sums")  # the one that is viewed, not the first
        expect(control.locator(".cp-ends")).to_have_text("00:00:00.00000:04:59.900")
        view.get_by_role("tab", name="Partitions").click()
        drag(control, 123_450)
        expect(view.locator(".cv-state")).to_have_text("past")
        expect(view.locator(".cv-clock")).to_have_text("00:02:03.450")
        expect(control.locator(".cp-at")).to_have_text("showing 00:02:03.450")
        control.get_by_role("button", name="bookmark this instant").click()
        expect(chart.locator(".cc-state")).to_have_text("past · 00:02:03.450")
        take_picture(notebook.cell(3), screenshot_dir / "scrub-chart.png")
        control.locator("select").select_option(HOSTILE)
        control.get_by_role("button", name="next delivery").click()
        expect(view.locator(".cv-clock")).to_have_text("00:02:30.000")
        control.locator(".cp-mark").click()
        expect(view.locator(".cv-clock")).to_have_text("00:02:03.450")
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            take_picture(notebook.cell(2), screenshot_dir / f"scrub-{theme.split()[1].lower()}.png")
        page.set_viewport_size({"width": 640, "height": 1000})
        assert settled(page, lambda: control.evaluate(INSIDE), bool)
        take_picture(notebook.cell(2), screenshot_dir / "scrub-640.png")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        control.get_by_role("button", name="Now").click()
        expect(view.locator(".cv-clock")).to_have_text("00:04:59.900")
        expect(chart.locator(".cc-state")).not_to_contain_text("past")

        # A selected row and its explanation go when another instant is shown: its rows are those of the title.
        view.get_by_role("tab", name="Stream").click()
        stream = view.locator(".cv-scroll[aria-label^=stream]")
        rows = stream.locator(".cv-row:not([hidden])")
        rows.filter(has_text="00:04:59").first.click()
        expect(view.locator(".cv-why")).to_contain_text("00:04:59")
        expect(view.locator(".cv-follow")).to_have_attribute("aria-pressed", "false")
        drag(control, 123_450)
        expect(view.locator(".cv-clock")).to_have_text("00:02:03.450")
        expect(view.locator(".cv-why")).to_be_hidden()
        expect(rows.filter(has_text="00:02:03.4")).not_to_have_count(0)
        expect(stream).not_to_contain_text("00:04:")
        take_picture(notebook.cell(2), screenshot_dir / "scrub-stream.png")
        control.get_by_role("button", name="Now").click()
        expect(rows.filter(has_text="00:04:59.9")).not_to_have_count(0)

        notebook.run_cell(4)
        second = notebook.cell(4).locator(".cepbook-progress")
        second.locator(".cp-until").click()
        page.keyboard.type("Tick(price > 700)")
        page.keyboard.press("Enter")
        expect(second.locator(".cp-note")).to_have_text("fired: Tick(price > 700)")
        expect(second.locator(".cp-count")).to_have_text("702 of 1,000 events")
        second.get_by_role("button", name="+1 s").click()
        expect(second.locator(".cp-count")).to_have_text("712 of 1,000 events")
        second.locator(".cp-range").focus()  # by keyboard: a hundredth, and a thousandth, of 71.1 seconds
        page.keyboard.press("Home")
        expect(second.locator(".cp-at")).to_have_text("showing 00:05:00.000")
        page.keyboard.press("ArrowRight")
        expect(second.locator(".cp-at")).to_have_text("showing 00:05:00.711")
        page.keyboard.press("Shift+ArrowLeft")
        expect(second.locator(".cp-at")).to_have_text("showing 00:05:00.640")
        page.keyboard.press("End")
        expect(second.locator(".cp-at")).to_have_text("showing the present")
        second.locator(".cp-until").fill("Tock")
        second.get_by_role("button", name="Run until").click()
        expect(second.locator(".cp-note")).to_contain_text("Tock")
        assert notebook.errors() == [] and notebook.dialogs == []
        assert (notebook.external, notebook.page_errors) == ([], [])


def test_the_run_is_driven_from_its_bar(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    """While a listener fails: speed, Ctrl-C, the part that ran, deliveries, bookmarks, the clock; what is no more."""
    write_notebook(lab_root / "driven.ipynb", DRIVEN)
    with open_lab("driven.ipynb") as notebook:
        page = notebook.page
        notebook.run_cell(*range(3))
        notebook.run_cell(3, wait=False)
        control, view = (notebook.cell(2).locator(name) for name in (".cepbook-progress", ".cepbook-view"))
        state, at = control.locator(".cp-state"), control.locator(".cp-at")
        expect(state).to_have_text("running")
        expect(control.locator(".cp-speed")).to_have_value("1")  # between two steps: at the nearest, 10
        until = control.get_by_role("button", name="Run until")
        control.locator(".cp-until").fill("Tick(price > 1e9)")
        until.click()
        expect(control.locator(".cp-waits")).to_have_text("until Tick(price > 1e9)")
        control.locator(".cp-until").fill("Tick(price > 'x')")
        until.click()
        expect(control.locator(".cp-note")).to_contain_text("type-mismatch")
        expect(control.locator(".cp-waits")).to_have_text("until Tick(price > 1e9)")  # the one before goes on
        assert "mono" in control.locator(".cp-note").evaluate("node => getComputedStyle(node).fontFamily")  # a caret
        control.locator(".cp-speed").evaluate(DRAG, 3)
        expect(control.locator(".cp-line .cp-rate").last).to_have_text("600 × real time")
        page.evaluate(INTERRUPT)
        expect(state).to_have_text("paused")
        expect(notebook.cell(3)).to_contain_text("interrupted: the replay is paused at")
        expect(control.locator(".cp-range")).to_be_enabled()
        drag(control, 1_050)
        expect(at).to_have_text("showing 00:00:01.050")
        expect(view.locator(".cv-clock")).to_have_text("00:00:01.050")
        control.locator("select").select_option("every10")
        control.get_by_role("button", name="previous delivery").click()
        expect(at).to_have_text("showing 00:00:01.000")
        control.get_by_role("button", name="previous delivery").click()
        expect(at).to_have_text("showing 00:00:00.000")
        control.get_by_role("button", name="next delivery").click()
        expect(at).to_have_text("showing 00:00:01.000")
        control.get_by_role("button", name="bookmark this instant").click()
        mark = control.locator(".cp-mark")
        expect(mark).to_have_attribute("aria-label", "bookmark 00:00:01.000")
        mark.click(modifiers=["Shift"])
        expect(mark).to_have_count(0)
        control.locator(".cp-speed").evaluate(DRAG, 6)  # as fast as it goes
        present = control.locator(".cp-clock").inner_text()
        control.get_by_role("button", name="Next due").click()  # of the past that is shown
        expect(at).to_have_text("showing 00:00:10.000")
        control.get_by_role("button", name="+1 s").click()
        expect(at).to_have_text("showing 00:00:11.000")
        expect(control.locator(".cp-clock")).to_have_text(present)
        control.get_by_role("button", name="Now").click()
        expect(at).to_have_text("showing the present")
        control.get_by_role("button", name="Next due").click()
        expect(control.locator(".cp-clock")).not_to_have_text(present)
        expect(state).to_have_text("paused")
        before = control.locator(".cp-clock").inner_text()
        control.get_by_role("button", name="+1 s").click()
        expect(control.locator(".cp-clock")).not_to_have_text(before)
        control.locator(".cp-until").fill("every10")
        control.get_by_role("button", name="Run until").click()
        expect(control.locator(".cp-note")).to_have_text("fired: every10")
        for width in (1500, 640):
            page.set_viewport_size({"width": width, "height": 1000})
            for theme in ("JupyterLab Dark", "JupyterLab Light"):
                change_theme(notebook, theme)
                assert settled(page, lambda: control.evaluate(INSIDE), bool)
                take_picture(control, screenshot_dir / f"driven-{theme.split()[1].lower()}-{width}.png")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})

        # A statement that is deployed when the replay is over says that the events are past, and replays them.
        control.get_by_role("button", name="Stop").click()
        expect(state).to_have_text("stopped")
        notebook.run_cell(4)
        fewer = notebook.cell(4).locator(".cepbook-view")
        expect(fewer.locator(".cv-empty").first).to_contain_text("events came before this statement was deployed")
        take_picture(notebook.cell(4), screenshot_dir / "driven-past.png")
        events = control.locator(".cp-count").inner_text()
        fewer.get_by_role("button", name="Replay again").click()
        expect(fewer.locator(".cv-body").first).to_contain_text("100.0")
        expect(fewer.get_by_role("button", name="Replay again")).to_be_hidden()
        expect(state).to_have_text("finished")  # the same bar
        assert control.locator(".cp-count").inner_text().split()[0] == events.split()[0]
        notebook.run_cell(5)
        expect(control.locator(".cp-range")).to_be_disabled()
        expect(at).to_have_text("the workbench has begun anew since")
        last = notebook.cell(5).locator(".cepbook-progress")
        expect(last.locator(".cp-at")).to_contain_text("the events of `Tick` can be read only once")
        expect(last.locator(".cp-range")).to_be_disabled()
        assert (notebook.external, notebook.page_errors) == ([], [])
