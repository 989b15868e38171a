"""Take the pictures of README.md and docs from a real JupyterLab in headless Chromium.

``python tools/pictures.py`` writes docs/images, each picture in the light and the dark theme (``NAME.png`` and
``NAME-dark.png``); names of scenes as arguments take only these. Needs JupyterLab, playwright, Pillow and Chromium
(`CEPBOOK_CHROMIUM` names one in an unusual place). The pictures show a week of synthetic card payments. They are
reduced to a palette of 256 colours, so that each has at most some 80 kB.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image  # pip install pillow
from playwright.sync_api import Locator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.lab import NotebookPage, chromium, find_chromium, lab_server, open_notebook, write_notebook  # noqa: E402
from tests.browser.test_themes import change_theme  # noqa: E402

FOLDER = ROOT / "docs" / "images"
THEMES = ("JupyterLab Light", "JupyterLab Dark")
WIDTH = 1000
SETUP = """%load_ext cepbook
import numpy as np
import pandas as pd
rng = np.random.default_rng(7)
n = 20_000
seconds = np.sort(rng.choice(7 * 86_400, n, replace=False))
payments = pd.DataFrame({
    "paid_at": pd.Timestamp("2024-03-01") + pd.to_timedelta(seconds, unit="s"),
    "customer": rng.choice(["anna", "ben", "cleo", "dan", "eve", "finn"], n),
    "amount": rng.lognormal(3, 1, n).round(2),
    "status": rng.choice(["ok", "failed"], n, p=[0.9, 0.1]),
})
cep.define("Payment", payments, time="paid_at")"""
TROUBLE = """%%epl
@name('trouble')
select customer, count(*) as failures, sum(amount) as total
from Payment(status = 'failed')#time(1 hour)
group by customer
having count(*) >= 3"""
REPLAY = 'replay = cep.replay(payments, "Payment")\nlive = %view trouble\ndisplay(replay, live)\nawait replay'
REFUSED = TROUBLE.replace("'trouble'", "'refused'").replace("group by customer", "group by custmer")
PER_CUSTOMER = """%%epl
create context PerCustomer partition by customer from Payment;

@name('spree')
context PerCustomer
select context.key1 as customer, count(*) as payments, sum(amount) as spent
from Payment#time(1 hour)
having sum(amount) > 400"""
FLOW = """%%epl --quiet
create window Latest#unique(customer) as Payment;
@name('latest')
insert into Latest select * from Payment;

@name('alerts')
insert into Alert select customer from Payment(status = 'failed', amount > 100)"""
PROBING = """%%epl
@name('failures')
select customer, count(*) as failures from Payment(status = 'failed') group by customer;

@name('probing')
select a.customer as customer, b.amount as amount
from pattern [every a=Payment(amount < 3) -> b=Payment(customer = a.customer, amount > 150)
              where timer:within(1 hour)]"""
SMALL = """cep.reset()
ticks = pd.DataFrame({"at": [1000, 2000, 3000, 5000, 6000, 8000, 9000, 12000],
                      "symbol": list("ABACBACB"), "price": [10.0, 7.0, 14.0, 3.0, 8.0, 12.0, 5.0, 9.0]})
cep.define("Tick", ticks, time="at")"""
BATCH = "%%epl\n@name('batch')\nselect irstream symbol, price from Tick#time_batch(4 sec)"
PLAY = 'cep.replay(ticks, "Tick", until=16_000).run()'
# Pictures show cells without the marks of the selected cell.
STYLE = """.jp-cell-toolbar, .jp-cell-menu { display: none !important }
.jp-Collapser { visibility: hidden !important }
.jp-Cell, .jp-Cell.jp-mod-active { border: none !important; outline: none !important; box-shadow: none !important }
.jp-Cell::before, .jp-Cell::after { display: none !important }
.jp-InputPrompt, .jp-OutputPrompt { color: #777 !important }"""
DRAG = "(node, at) => { node.value = at; node.dispatchEvent(new Event('input')); }"


def save(notebook: NotebookPage, name: str, png: bytes, bottom: int | None = None) -> None:
    """Write a picture of the present theme with 256 colours; `bottom` cuts what is below (pixels)."""
    name += "" if notebook.page.evaluate("document.body.dataset.jpThemeLight") == "true" else "-dark"
    picture = Image.open(BytesIO(png)).convert("RGB")
    if bottom is not None and picture.height > bottom:
        picture = picture.crop((0, 0, picture.width, bottom))
    path = FOLDER / f"{name}.png"
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")


def between(notebook: NotebookPage, first: Locator, last: Locator, margin: int = 6) -> bytes:
    """The part of the page from the top of one element to the bottom of another."""
    top, end = first.bounding_box(), last.bounding_box()
    assert top is not None and end is not None
    left = min(top["x"], end["x"])
    right = max(top["x"] + top["width"], end["x"] + end["width"])
    area = {
        "x": left - margin,
        "y": max(0, top["y"] - margin),
        "width": right - left + 2 * margin,
        "height": end["y"] + end["height"] - top["y"] + 2 * margin,
    }
    return notebook.page.screenshot(clip=area)


def live(notebook: NotebookPage) -> None:
    """The statement, the bar of a replay and the live view; then the same at a past instant."""
    notebook.run_cell(0, 1, 2)
    notebook.page.set_viewport_size({"width": WIDTH, "height": 1250})
    control, view = (notebook.cell(2).locator(name) for name in (".cepbook-progress", ".cepbook-view"))
    view.wait_for()
    notebook.page.wait_for_timeout(6000)
    notebook.cell(1)
    notebook.page.wait_for_timeout(500)
    save(notebook, "live_view", between(notebook, notebook.cell(1), view))
    control.locator(".cp-range").evaluate(DRAG, 1709538000000)
    notebook.page.wait_for_timeout(1500)
    save(notebook, "time_travel", between(notebook, control, view))


def why(notebook: NotebookPage) -> None:
    """Why a row, and why not."""
    notebook.run_cell(0, 1)
    notebook.run_cell(2)
    notebook.page.set_viewport_size({"width": WIDTH, "height": 1000})
    notebook.run_cell(3, 4)
    notebook.page.wait_for_timeout(1500)
    save(notebook, "why", notebook.cell(3).screenshot())
    save(notebook, "why_not", notebook.cell(4).screenshot())


def marble(notebook: NotebookPage) -> None:
    """A marble diagram and a statement drawn as a chart."""
    notebook.run_cell(0, 1, 2, 3, 4)
    notebook.page.set_viewport_size({"width": WIDTH, "height": 1000})
    picture = notebook.cell(4).locator(".vega-embed")
    picture.wait_for()
    notebook.page.wait_for_timeout(1500)
    save(notebook, "marble", notebook.cell(4).screenshot())


def chart(notebook: NotebookPage) -> None:
    """A chart of a statement, the timeline of a context, the partitions, the map and the panel."""
    notebook.run_cell(0, 1, 2, 3)
    notebook.page.set_viewport_size({"width": WIDTH, "height": 1200})
    notebook.run_cell(4, 5, 6, 7, 8)
    notebook.page.wait_for_timeout(4000)
    for index, name in ((4, "chart"), (5, "map"), (6, "panel"), (8, "problem")):
        notebook.cell(index)
        notebook.page.wait_for_timeout(1000)
        save(notebook, name, notebook.cell(index).screenshot(), 900)
    view = notebook.cell(7).locator(".cepbook-view")
    view.get_by_role("tab", name="Partitions").click()
    notebook.page.wait_for_timeout(1500)
    save(notebook, "partitions", view.screenshot(), 600)


def spark(notebook: NotebookPage) -> None:
    """The same statements on Spark and the comparison."""
    notebook.run_cell(0, 1, 2)
    notebook.page.set_viewport_size({"width": WIDTH, "height": 1000})
    notebook.run_cell(3)
    notebook.page.wait_for_timeout(2000)
    save(notebook, "spark", notebook.cell(3).screenshot())


SCENES: dict[str, tuple[list[str], Callable[[NotebookPage], None]]] = {
    "live": ([SETUP, TROUBLE, REPLAY], live),
    "why": (
        [SETUP, TROUBLE, 'cep.replay(payments, "Payment").run()', "%epl why trouble", "%epl why trouble --event -1"],
        why,
    ),
    "marble": ([SETUP, SMALL, BATCH, PLAY, "%epl marble batch"], marble),
    "chart": (
        [
            SETUP, f"{TROUBLE};{FLOW.removeprefix('%%epl --quiet')}", PER_CUSTOMER,
            'cep.replay(payments, "Payment", limit=4000).run()', "%view --chart spree",
            "%epl map", "%cep", "%view spree", REFUSED,
        ],
        chart,
    ),
    "spark": (
        [
            SETUP, PROBING, 'cep.replay(payments, "Payment").run()',
            'batch = cep.spark({"Payment": payments})\ndisplay(batch)\ncep.compare(batch)',
        ],
        spark,
    ),
}  # fmt: skip


def main(names: list[str]) -> int:
    executable = find_chromium()
    if executable is None:
        print("no Chromium found; install one or set CEPBOOK_CHROMIUM to its path", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "notebooks")
        root.mkdir()
        with lab_server(root, Path(folder)) as server, chromium(executable) as browser:
            for scene in names or SCENES:
                cells, take = SCENES[scene]
                for theme in THEMES:
                    write_notebook(root / f"{scene}.ipynb", cells)
                    with open_notebook(browser, server, f"{scene}.ipynb") as notebook:
                        change_theme(notebook, theme)
                        notebook.page.add_style_tag(content=STYLE)
                        take(notebook)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
