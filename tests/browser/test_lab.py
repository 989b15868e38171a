"""The fixture itself, on a notebook of its own: widgets, errors and requests to the outside are seen."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook

CELLS = [
    (
        "import anywidget, ipywidgets, traitlets\n"
        "class Rows(anywidget.AnyWidget):\n"
        "    _esm = '''export default { render({model, el}) {\n"
        '        el.innerHTML = `<p class="probe">${model.get("rows")} rows</p>`; } }\'\'\'\n'
        "    rows = traitlets.Int(3).tag(sync=True)\n"
        "ipywidgets.VBox([ipywidgets.Button(description='press'), Rows()])",
        [],
    ),
    ("1 / 0", ["raises-exception"]),
    ("from IPython.display import HTML\nHTML('<img src=\"http://example.invalid/x.png\">')", []),
    ("undefined_name", []),
    ("'never reached'", []),
]


def write_notebook(path: Path) -> None:
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {"tags": tags}, "source": source, "outputs": [],
         "execution_count": None}
        for i, (source, tags) in enumerate(CELLS)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook))


def test_the_page_object_sees_what_a_person_would(open_lab: OpenNotebook, lab_root: Path, screenshot_dir: Path) -> None:
    write_notebook(lab_root / "probe.ipynb")
    with open_lab("probe.ipynb") as page:
        page.run_all(timeout=120)
        assert page.errors() == ["cell 3: NameError: name 'undefined_name' is not defined"]
        assert page.cells()[4]["count"] is None, "an unexpected error stops the run"
        first = page.cell(0)
        expect(first.locator("button", has_text="press")).to_be_visible()
        expect(first.locator(".probe")).to_have_text("3 rows")
        assert page.index("1 / 0") == 1
        assert set(page.external) == {"http://example.invalid/x.png"}
        assert page.page_errors == []
        picture = screenshot_dir / "probe.png"
        page.screenshot(picture)
        assert picture.stat().st_size > 10_000
