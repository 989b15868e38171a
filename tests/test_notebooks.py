"""What holds for every notebook: its links lead somewhere, and its outputs are those of one run without mishaps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cepbook.colours import WORDS

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
MAGIC = re.compile(r"\s*%%(\w+)")
MAGICS = json.loads(WORDS.read_text(encoding="utf-8"))["magics"]
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture(params=NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def notebook(request: pytest.FixtureRequest) -> tuple[Path, list[dict[str, Any]]]:
    path: Path = request.param
    return path, json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_links_lead_to_headings_and_files(notebook: tuple[Path, list[dict[str, Any]]]) -> None:
    path, cells = notebook
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    headings = {heading.replace(" ", "-") for text in texts for heading in HEADING.findall(text)}
    assert headings
    for link in (link for text in texts for link in LINK.findall(text)):
        if link.startswith("#"):
            assert link[1:] in headings
        else:
            assert (path.parent / link).exists(), link


def test_all_cells_have_run_in_order(notebook: tuple[Path, list[dict[str, Any]]]) -> None:
    _, cells = notebook
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        failed = any(output["output_type"] == "error" for output in cell["outputs"])
        assert failed == ("raises-exception" in cell["metadata"].get("tags", [])), cell["id"]


def test_cells_of_epl_say_so(notebook: tuple[Path, list[dict[str, Any]]]) -> None:
    """As JupyterLab's extension notes it, so that nbconvert colours them."""
    _, cells = notebook
    for cell in cells:
        magic = MAGIC.match("".join(cell["source"])) if cell["cell_type"] == "code" else None
        ours = magic is not None and magic[1] in MAGICS
        assert (cell["metadata"].get("magics_language") == "epl") == ours, cell["id"]


def test_lines_fit_a_page_with_the_file_browser_open(notebook: tuple[Path, list[dict[str, Any]]]) -> None:
    """Of 1,440 pixels, 127 characters are seen beside the file browser; a wider font needs some of them."""
    _, cells = notebook
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        printed = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
        for texts, longest in (([cell["source"]], 104), (printed, 112)):
            lines = [line for text in texts for line in "".join(text).splitlines() if len(line) > longest]
            assert not lines, (cell["id"], lines)
