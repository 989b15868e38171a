"""The table of a live view: conditions by column over all rows, order, columns hidden and moved, selected cells, files
of what is displayed, and all of it by keyboard alone.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, take_picture, write_notebook
from tests.browser.test_themes import change_theme

COUNT = 150_000  # more than the memory of a feed has
CELLS = [
    "%load_ext cepbook",
    "%%epl\n"
    "create schema Flight(at long, carrier string, delay double, note string) starttimestamp at;\n"
    "@name('late') select irstream * from Flight#length(100000)",
    "flights = [dict(at=1357034400000 + i * 60_000, carrier=['B6', 'DL', 'AA'][i % 3], delay=float(i * 7919 % 99991),"
    f" note=None if i % 2 else f'note {{i}}') for i in range({COUNT})]\n"
    "cep.replay(flights, type='Flight', time='at').run()",
    "%view late",
    "total = 0\nfor i in range(3_000_000): total += i\nprint('done', total)",
]
ROWS = COUNT + COUNT - 100_000
VIEW, BUSY = 3, 4


def frame() -> pd.DataFrame:
    """The flights of the notebook."""
    number = pd.Series(range(COUNT))
    return pd.DataFrame({"at": 1357034400000 + number * 60_000, "delay": (number * 7919 % 99991).astype(float)})


def taken(view: Locator, name: str, path: Path) -> Path:
    """The file behind a button."""
    with view.page.expect_download(timeout=60_000) as download:
        view.get_by_role("button", name=name).click()
    download.value.save_as(path)
    return path


def check_conditions(view: Locator) -> None:
    """Each condition finds what pandas finds, among all rows."""
    footer, flights = view.locator(".cv-footer"), frame()
    high = int((flights["delay"] > 99_000).sum())
    view.get_by_role("button", name="Columns").click()
    view.get_by_label("condition on delay").fill("> 99000")
    view.locator(".cv-minus").click()
    expect(footer).to_have_text(f"{high:,} of {ROWS:,} rows", timeout=30_000)
    view.get_by_label("condition on at").fill("2013-01-03 .. 2013-01-05")
    days = flights["at"].between(1357171200000, 1357430400000 - 1) & (flights["delay"] > 99_000)
    expect(footer).to_have_text(f"{int(days.sum()):,} of {ROWS:,} rows")
    view.get_by_label("condition on at").fill("")
    view.get_by_label("condition on note").fill("null")
    view.get_by_label("condition on carrier").fill("dl or = AA")
    matching = (flights["delay"] > 99_000) & (flights.index % 2 == 1) & (flights.index % 3 > 0)
    expect(footer).to_have_text(f"{int(matching.sum()):,} of {ROWS:,} rows")
    view.get_by_label("condition on carrier").fill("")
    view.get_by_label("condition on note").fill("")
    view.get_by_label("condition on delay").fill("> late")
    expect(view.locator(".cv-problem", has_text="`late` is not a number")).to_be_visible()
    expect(view.get_by_label("condition on delay")).to_have_attribute("aria-invalid", "true")
    view.get_by_label("condition on delay").fill("> 99000")
    expect(footer).to_have_text(f"{high:,} of {ROWS:,} rows")


def check_columns(view: Locator) -> list[str]:
    """The stream in the order of a column, one column hidden, one moved."""
    stream = view.get_by_role("tabpanel", name="Stream")
    view.get_by_label("show carrier").uncheck()
    for _ in range(3):
        view.get_by_role("button", name="move delay left").click()
    view.get_by_role("button", name="Columns").click()
    expect(view.locator(".cv-condition-chip")).to_have_text("delay > 99000 ×")
    for _ in range(2):
        stream.get_by_role("columnheader", name="delay").get_by_role("button").click()
    expect(stream.get_by_role("columnheader", name="delay")).to_have_attribute("aria-sort", "descending")
    rows = stream.locator(".cv-body .cv-row").filter(visible=True)
    expect(rows.first).to_contain_text("99990.0")
    headings = [name.split(" ▼")[0] for name in stream.get_by_role("columnheader").all_inner_texts()]
    assert headings == ["time", "delay", "±", "at", "note"]
    return headings


def check_files(notebook: NotebookPage, view: Locator, folder: Path) -> None:
    """A file has what is displayed. A cell runs while the file of all rows is written."""
    with taken(view, "CSV", folder / "late.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    delays = sorted(frame()["delay"][lambda delay: delay > 99_000], reverse=True)
    assert [float(row["delay"]) for row in rows] == delays
    assert list(rows[0]) == ["time", "seq", "delay", "kind", "at", "note"]
    assert pd.read_parquet(taken(view, "Parquet", folder / "late.parquet"))["delay"].tolist() == delays
    view.locator(".cv-condition-chip").click()
    view.locator(".cv-minus").click()
    expect(view.locator(".cv-footer")).to_contain_text(f"{ROWS:,} rows", timeout=30_000)
    with notebook.page.expect_download(timeout=90_000) as download:
        view.get_by_role("button", name="CSV").click()
        expect(view.get_by_role("progressbar")).to_be_visible()
        notebook.run_cell(BUSY)
        assert "done" in notebook.cells()[BUSY]["outputs"][0]["text"]
    download.value.save_as(folder / "all.csv")
    assert len((folder / "all.csv").read_text(encoding="utf-8").splitlines()) == ROWS + 1
    notebook.cell(VIEW)
    expect(view.locator(".cv-taken")).to_have_text(f"{ROWS:,} rows as CSV")


def check_selection(view: Locator) -> None:
    """Cells are selected with the mouse, rows by keyboard; those that the page lacks are copied, too."""
    page = view.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    read = "() => navigator.clipboard.readText()"
    rows = view.get_by_role("tabpanel", name="Stream").locator(".cv-body .cv-row").filter(visible=True)
    start, end = (rows.nth(row).locator(".cv-cell").nth(cell).bounding_box() for row, cell in ((1, 1), (3, 3)))
    assert start is not None and end is not None
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=5)
    page.mouse.up()
    expect(view.locator(".cv-taken")).to_have_text("3 rows × 3 columns selected: Ctrl+C copies")
    expect(view.locator(".cv-selected").filter(visible=True)).to_have_count(9)
    expect(view.get_by_role("region", name="why this row was delivered")).to_be_hidden()
    page.keyboard.press("Control+c")
    expect(view.locator(".cv-taken")).to_have_text("copied 3 rows")
    assert [len(line.split("\t")) for line in page.evaluate(read).splitlines()] == [3, 3, 3]
    page.keyboard.press("Escape")
    expect(view.locator(".cv-selected").filter(visible=True)).to_have_count(0)
    view.locator(".cv-filter").fill("note")
    expect(view.locator(".cv-footer")).to_contain_text(f"{ROWS // 2:,} of", timeout=30_000)
    view.get_by_role("table", name="stream of insert and remove rows").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    expect(view.locator(".cv-taken")).to_have_text(f"copied {ROWS // 2:,} rows", timeout=30_000)
    assert len(page.evaluate(read).splitlines()) == ROWS // 2
    page.keyboard.press("Escape")


def check_focus_while_columns_move(view: Locator) -> None:
    """Each control of a line keeps the focus when the lines are drawn anew."""
    names = view.locator(".cv-column-name")
    for control, way in ((view.get_by_label("show time"), "left"), (view.get_by_label("condition on time"), "right")):
        before = names.all_inner_texts()
        control.focus()
        view.get_by_role("button", name=f"move time {way}").evaluate("button => button.click()")  # leaves the focus
        expect(names).not_to_have_text(before)
        expect(control).to_be_focused()


def check_keyboard(view: Locator) -> None:
    """From the filter by Tab to the columns, a condition, a hidden and a moved column, and back with Escape."""
    page = view.page
    view.locator(".cv-filter").fill("")
    view.locator(".cv-filter").focus()
    page.keyboard.press("Tab")
    expect(view.get_by_role("button", name="Columns")).to_be_focused()
    page.keyboard.press("Enter")
    expect(view.get_by_label("condition on time")).to_be_focused()
    page.keyboard.type("2013-01-02")
    expect(view.locator(".cv-footer")).to_contain_text(f"1,440 of {ROWS:,} rows", timeout=30_000)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(view.get_by_role("button", name="move time right")).to_be_focused()
    page.keyboard.press("Enter")
    expect(view.get_by_role("button", name="move time right")).to_be_focused()
    page.keyboard.press("Tab")
    check_focus_while_columns_move(view)
    page.keyboard.press("Escape")
    expect(view.get_by_role("button", name="Columns")).to_be_focused()
    expect(view.get_by_label("condition on time")).to_be_hidden()


def check_reload(notebook: NotebookPage, view: Locator) -> None:
    """Conditions, hidden and moved columns are there when the page is loaded again."""
    page = notebook.page
    headings = view.get_by_role("tabpanel", name="Stream").get_by_role("columnheader").all_inner_texts()
    stored = page.evaluate(
        "() => Object.entries(sessionStorage).filter(([k]) => k.startsWith('cepbook ')).map(e => e[1])"
    )
    (own,) = (text for text in stored if '"time":"2013-01-02"' in text)  # other tests have used the page before
    assert '"hidden":{"stream":["carrier"]}' in own
    assert "carrier" not in headings


def test_tables_of_a_view(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path, tmp_path: Path) -> None:
    write_notebook(lab_root / "tables.ipynb", CELLS)
    with open_lab("tables.ipynb") as notebook:
        notebook.run_cell(*range(4))
        view = notebook.cell(VIEW).locator(".cepbook-view")
        view.wait_for()
        check_conditions(view)
        check_columns(view)
        check_files(notebook, view, tmp_path)
        check_selection(view)
        check_keyboard(view)
        check_reload(notebook, view)
        view.get_by_role("button", name="Columns").click()
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(notebook, theme)
            for width in (700, 1440):
                notebook.page.set_viewport_size({"width": width, "height": 1000})
                take_picture(notebook.cell(VIEW), screenshot_dir / f"table-{theme.split()[1].lower()}-{width}.png")
        assert notebook.errors() == []
        assert (notebook.external, notebook.page_errors) == ([], [])
