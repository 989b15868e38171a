"""``cepbook lab``: JupyterLab at a notebook with the workbench."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from cepbook.cli.command import CliCommand
from cepbook.errors import UsageError

DEFAULT = "workbench.ipynb"
CELLS = (
    ("markdown", "# A workbench\n\nRun the cells one by one (Shift-Enter). `%epl help` lists what there is."),
    ("code", "%load_ext cepbook"),
    (
        "code",
        "%%epl\ncreate schema Tick(symbol string, price double);\n\n"
        "@name('means')\nselect symbol, avg(price) as mean, count(*) as ticks\nfrom Tick#time(10 sec)\ngroup by symbol",
    ),
    (
        "code",
        "%%events\nTick = {symbol='A', price=10.0}\nt = t.plus(2 seconds)\nTick = {symbol='A', price=14.0}\n"
        "t = t.plus(9 seconds)",
    ),
    ("code", "%epl marble means"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "notebook", nargs="?", type=Path, default=Path(DEFAULT), help="made, with a small example, if it is not there"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="-- and options of JupyterLab, such as --no-browser")


def starter() -> dict[str, object]:
    """Return a small example notebook."""
    cells: list[dict[str, object]] = []
    for number, (kind, source) in enumerate(CELLS):
        cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        cells.append(cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def command(notebook: Path, layout: str, rest: list[str]) -> list[str]:
    """Return the command that opens the notebook without network access. Errors: UsageError without JupyterLab.

    The directory `layout` is empty, because JupyterLab would restore a layout in which the notebook is open and start
    two kernels.
    """
    if find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed\n  hint: pip install 'cepbook[lab]'")
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        "--LabApp.extension_manager=readonly",
        f"--ServerApp.root_dir={notebook.resolve().parent}",
        f"--LabApp.workspaces_dir={layout}",
        f"--LabApp.default_url=/lab/tree/{quote(notebook.name)}",
        *(word for word in rest if word != "--"),
    ]


def open_lab(options: argparse.Namespace) -> int:
    """Create the notebook if it does not exist, and run JupyterLab until it ends."""
    notebook: Path = options.notebook
    rest: list[str] = options.rest
    if str(notebook).startswith("-"):  # ``cepbook lab -- --no-browser`` names none
        notebook, rest = Path(DEFAULT), [str(notebook), *rest]
    if notebook.suffix != ".ipynb" or notebook.is_dir():
        raise UsageError(f"{str(notebook)!r} is no notebook (.ipynb)")
    with tempfile.TemporaryDirectory(prefix="cepbook-") as layout:
        started = command(notebook, layout, rest)
        if not notebook.exists():
            try:
                notebook.write_text(json.dumps(starter(), indent=1) + "\n", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{str(notebook)!r} cannot be written: {error.strerror}") from None
        former = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is JupyterLab's: it asks whether to stop
        try:
            return subprocess.call(started)
        finally:
            signal.signal(signal.SIGINT, former)


COMMAND = CliCommand(arguments, open_lab)
