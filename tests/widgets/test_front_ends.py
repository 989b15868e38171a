"""Widgets outside JupyterLab, by anywidget's rules: one module, no address elsewhere, no part of JupyterLab."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import cepbook.widgets
from cepbook.widgets.base.live_widget import LiveWidget


def widgets() -> list[type[LiveWidget]]:
    """The classes of all widgets that a cell can show."""
    for module in pkgutil.walk_packages(cepbook.widgets.__path__, "cepbook.widgets."):
        importlib.import_module(module.name)
    found, open_classes = [], [LiveWidget]
    while open_classes:
        kind = open_classes.pop()
        open_classes += kind.__subclasses__()
        if "_esm" in kind.__dict__ and kind.__module__.startswith("cepbook."):
            found.append(kind)
    return found


WIDGETS = widgets()


def test_there_are_widgets() -> None:
    assert len(WIDGETS) >= 6


@pytest.mark.parametrize("widget", WIDGETS, ids=lambda widget: widget.__name__)
def test_a_widget_is_one_module(widget: type[LiveWidget]) -> None:
    script = str(widget._esm)
    assert re.search(r"^export default", script, re.MULTILINE)
    assert re.findall(r"^\s*import\b.*|\bimport\(|\brequire\(", script, re.MULTILINE) == []
    assert [url for url in re.findall(r"https?://[^\s\"'`]+", script) if "www.w3.org" not in url] == []
    assert re.findall(r"jupyterapp|@jupyterlab|\bJupyter\b\.", script) == []


@pytest.mark.parametrize(
    "sheet", sorted(Path(cepbook.widgets.__path__[0]).rglob("*.css")), ids=lambda sheet: sheet.stem
)
def test_a_colour_of_jupyterlab_has_another_in_its_place(sheet: Path) -> None:
    text = sheet.read_text(encoding="utf-8")
    assert re.findall(r"var\(--jp-[\w-]+\)", text) == []
    assert re.findall(r"@import|https?://", text) == []
