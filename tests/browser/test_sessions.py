"""Sessions in JupyterLab that last: saved and loaded, fed from outside, statements that go, cells that run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, take_picture, write_notebook
from tests.browser.test_magics import TEXTS, output, run
from tests.browser.test_themes import READABLE, change_theme

SESSION = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Sale(id string, amount double);\ncreate schema Payment(id string, paid double);\n"
    "create schema Claim(id string);\n"
    "create table Paid(id string primary key, total double);\n"
    "@name('settled') select o.id as id, p.paid as paid from Sale#length(10) as o, Payment#length(10) as p "
    "where o.id = p.id and p.paid >= o.amount;\n"
    "@name('book') on Payment as p merge Paid as t where t.id = p.id "
    "when matched then update set total = t.total + p.paid when not matched then insert select id, paid as total;\n"
    "@name('big') select id, amount from Sale(amount > 10);\n"
    "@name('unpaid') select a.id as id from pattern [every a=Sale -> b=Claim(id = a.id)]",
    '%%events --quiet\nSale id="a" amount=20.0\nPayment id="a" paid=5.0\nPayment id="a" paid=25.0\n'
    'Sale id="b" amount=1.0',
    "%epl why settled",
    "%epl why book",
    "cep.why('settled', {'id': 'c', 'paid': 1.0}, type='Payment')",
    "cep.why('unpaid', {'id': 'c'}, type='Claim')",
    "%epl save kept.cep",
    "%epl drop Sale",
    "%epl reset",
    "%epl load kept.cep",
    "%view big",
    "import asyncio\n"
    "async def sales():\n"
    "    for n in range(40):\n"
    "        yield {'id': f'live{n}', 'amount': 100.0 + n}\n"
    "        await asyncio.sleep(0.05)\n"
    "live = cep.live({'Sale': sales()})\nlive",
    "await live",
]  # fmt: skip
JOINED, MERGED, NOT_JOINED, NOT_MATCHED, SAVE, DROP, RESET, LOAD, VIEW, LIVE, AWAIT = range(3, 14)


def check_answers(notebook: NotebookPage, pictures: Path) -> None:
    """What rows of a join and of a merge were made of, and why an event led to none; in both themes and widths."""
    said = {
        JOINED: "why settled",
        MERGED: "why book",
        NOT_JOINED: "what would become of Payment",
        NOT_MATCHED: "what would become of Claim",
    }
    for width in (1500, 640):
        notebook.page.set_viewport_size({"width": width, "height": 1000})
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for number, text in said.items():
                element = output(notebook, number).last
                expect(element).to_contain_text(text)
                path = pictures / f"session-{number}-{width}-{theme.split()[1].lower()}.png"
                take_picture(notebook.cell(number), path)
                contrasts = element.evaluate(TEXTS)
                assert len(contrasts) >= 4 and min(contrasts) >= READABLE, (number, theme, contrasts)
            element = output(notebook, DROP).last
            expect(element).to_contain_text("--cascade")
            expect(element).to_contain_text("settled")
            take_picture(notebook.cell(DROP), pictures / f"session-drop-{width}-{theme.split()[1].lower()}.png")
            assert min(element.evaluate(TEXTS)) >= 3.5  # the red of JupyterLab behind errors
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})


def test_a_session_is_saved_loaded_and_fed_from_outside(
    open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path
) -> None:
    write_notebook(lab_root / "session.ipynb", SESSION)
    with open_lab("session.ipynb") as notebook:
        for number in range(SAVE + 1):
            run(notebook, number)
        expect(output(notebook, SAVE).last).to_contain_text("kept.cep")
        assert (lab_root / "kept.cep").stat().st_size > 1000
        run(notebook, DROP)
        check_answers(notebook, screenshot_dir)
        run(notebook, RESET)
        expect(run(notebook, LOAD).last).to_contain_text("loaded Sale, Payment, Claim, Paid, settled")
        run(notebook, VIEW)
        view = notebook.cell(VIEW).locator(".cepbook-view")
        expect(view.locator(".cv-state")).to_be_visible()
        run(notebook, LIVE)
        run(notebook, AWAIT)
        notebook.cell(VIEW)
        expect(view.locator(".cv-body").first).to_contain_text("live39")
        expect(view).to_contain_text("+40")
        take_picture(notebook.cell(VIEW), screenshot_dir / "session-live.png")
        wrong = [error for error in notebook.errors() if not error.startswith(f"cell {DROP}:")]
        assert (wrong, notebook.page_errors, notebook.external) == ([], [], [])


LASTING = [
    "%load_ext cepbook",
    "%%epl\ncreate schema Tick(at long, price double);\n@name('out') select * from Tick#length(50)",
    "%view out",
    "%epl map",
    "%cep",
    "cep.rewind()\nreplay = cep.replay([{'at': 10 * n, 'price': float(n)} for n in range(200)], 'Tick', 'at')\nreplay",
    "import gc\nfrom ipywidgets.widgets.widget import _instances\ngc.collect()\nprint(len(_instances))",
]
REPLAY, COUNT = 5, 6
_MODELS = """async () => {
    const manager = await window.cepbookPanel.context.sessionContext.session.kernel.requestCommInfo({});
    return Object.keys(manager.content.comms).length;
}"""
NODES = 250  # that a replay may leave in the page: a toolbar of JupyterLab for the cell that ran takes most of them


def test_cells_that_run_again_leave_little_behind(open_lab: OpenNotebook, lab_root: Path) -> None:
    write_notebook(lab_root / "lasting.ipynb", LASTING)
    with open_lab("lasting.ipynb") as notebook:
        session: Any = notebook.page.context.new_cdp_session(notebook.page)

        def nodes() -> int:
            notebook.page.wait_for_timeout(2_500)  # views that were thrown out are ended then
            session.send("HeapProfiler.collectGarbage")
            nodes: int = session.send("Memory.getDOMCounters")["nodes"]
            return nodes

        def replay() -> None:
            bar = run(notebook, REPLAY).last
            expect(bar.locator(".cp-state")).to_have_text("finished")

        for number in range(REPLAY):
            run(notebook, number)
        for _ in range(3):
            replay()
        before = nodes()
        widgets, comms = run(notebook, COUNT).last.inner_text(), notebook.page.evaluate(_MODELS)
        for _ in range(10):
            replay()
        assert nodes() - before <= 10 * NODES
        assert run(notebook, COUNT).last.inner_text() == widgets
        assert notebook.page.evaluate(_MODELS) == comms
        for number, what in ((2, ".cepbook-view"), (3, ".cepbook-flow"), (4, ".cepbook-panel")):
            expect(notebook.cell(number).locator(what)).to_have_count(1)
            expect(notebook.cell(number).locator(what)).to_be_visible()
        view = notebook.cell(2).locator(".cepbook-view")
        expect(view.locator(".cv-body").first).to_contain_text("199")
        assert (notebook.errors(), notebook.page_errors) == ([], [])
