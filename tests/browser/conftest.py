"""One server and one page for all browser tests; without Chromium they are skipped, or fail where CI requires it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.lab import NotebookPage

ROOT = Path(__file__).resolve().parents[2]
OpenNotebook = Callable[[str], "AbstractContextManager[NotebookPage]"]


@pytest.fixture(scope="session")
def lab_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's files: a copy of the notebooks, so that JupyterLab's autosave never changes the originals."""
    root = tmp_path_factory.mktemp("lab-root")
    notebooks = ROOT / "notebooks"
    if notebooks.is_dir():
        shutil.copytree(notebooks, root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of all tests: a process has one playwright."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (group `test`)")
    from playwright.sync_api import expect

    from tests.browser import lab

    expect.set_options(timeout=lab.ANSWER * 1000)  # ms
    executable = lab.find_chromium()
    if executable is None:
        reason = "no Chromium or Chrome found; install one or set CEPBOOK_CHROMIUM to its path"
        if os.environ.get("CEPBOOK_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    with lab.chromium(executable) as browser:
        yield browser


@pytest.fixture(scope="session")
def open_lab(lab_root: Path, tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[OpenNotebook]:
    """A function that opens a notebook of *lab_root*: `with open_lab("notebooks/x.ipynb") as page: ...`."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (extra `lab`)")
    from tests.browser import lab

    home = tmp_path_factory.mktemp("lab-home")
    # One page for all: loading JupyterLab takes longer than most tests.
    with lab.lab_server(lab_root, home) as server, lab.lab_page(chromium, server) as page:
        yield page.open


@pytest.fixture
def screenshot_dir(tmp_path: Path) -> Path:
    """Where pictures go: `CEPBOOK_SCREENSHOT_DIR` when set, else the test's own temporary directory."""
    return Path(os.environ.get("CEPBOOK_SCREENSHOT_DIR") or tmp_path)
