"""JupyterLab in headless Chromium: a private server, and a page object that asks the application, not its DOM."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Error, Locator, Page, Route, sync_playwright

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
EXTENSION = Path(__file__).resolve().parents[2] / "cepbook" / "magics" / "labextension" / "static"
EXTENSION_NAME = "cepbook-epl"
LAB_FLAGS = [
    "--no-browser", "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1", "--expose-app-in-browser",
    "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly", "--LabServerApp.workspaces_dir=workspaces",
]  # fmt: skip
T = TypeVar("T")
WIDTH, HEIGHT = 1400, 1000
ANSWER = 20  # seconds; beside other tests a page of a machine with two cores answers late
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
HEIGHTS = (3_000, 6_000, 12_000, 16_000)  # Chromium's largest picture is 16,384 pixels high


def find_chromium() -> str | None:
    """The browser to use: `CEPBOOK_CHROMIUM`, one on PATH, or one that `playwright install` has put in its cache."""
    command = os.environ.get("CEPBOOK_CHROMIUM")
    if command:
        return shutil.which(command)
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@dataclass(frozen=True, slots=True)
class LabServer:
    """A running JupyterLab whose files are those of `root`."""

    address: str
    token: str
    root: Path


@contextmanager
def lab_server(root: Path, home: Path, *, timeout: float = 90) -> Iterator[LabServer]:
    """Start JupyterLab over *root*, with settings, kernels and run-time files below *home* only; ends it on exit."""
    token = secrets.token_hex(16)
    runtime = home / "runtime"
    own = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": runtime,
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_PATH": home / "share",
    }
    command = [sys.executable, "-m", "jupyterlab", *LAB_FLAGS, f"--ServerApp.root_dir={root}"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    extensions = home / "share" / "labextensions"
    extensions.mkdir(parents=True, exist_ok=True)
    if not (extensions / EXTENSION_NAME).exists():  # that of this tree, whatever is installed
        (extensions / EXTENSION_NAME).symlink_to(EXTENSION, target_is_directory=True)
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--IdentityProvider.token={token}"],
            cwd=home,
            env={**os.environ, **{name: str(path) for name, path in own.items()}},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        address = _wait_for_address(process, runtime / f"jpserver-{process.pid}.json", token, timeout, log)
        yield LabServer(address, token, root)
    finally:
        process.terminate()  # the server ends its kernels with it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], info: Path, token: str, timeout: float, log: Path) -> str:
    """The address of the server, once it answers. The port is in the file that the server writes when it listens."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        with suppress(OSError, ValueError):  # no file yet, half a file, not answering yet
            address = f"http://127.0.0.1:{json.loads(info.read_text())['port']}"
            status = urllib.request.Request(f"{address}/api/status", headers={"Authorization": f"token {token}"})
            with urllib.request.urlopen(status, timeout=5) as answer:
                if answer.status == 200:
                    return address
        time.sleep(0.1)
    raise TimeoutError(f"JupyterLab did not answer within {timeout} s:\n{log.read_text(errors='replace')}")


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    """Headless Chromium with a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


_OPEN = """async path => {
    const app = window.jupyterapp;
    await app.restored;
    const panel = await app.commands.execute('docmanager:open', {path, factory: 'Notebook'});
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.revealed;
    window.cepbookPanel = panel;
}"""
_RELOADED = "() => performance.getEntriesByType('navigation')[0].type === 'reload'"
_AS_IT_WAS = """async () => {
    const app = window.jupyterapp;
    for (const widget of [...app.shell.widgets('main')]) widget.dispose();
    app.shell.collapseLeft();
    if (document.body.dataset.jpThemeLight !== 'true') {
        await app.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'});
    }
}"""
_READY = """() => {
    const kernel = window.cepbookPanel.sessionContext.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
# A cell that failed on purpose (tag raises-exception) does not stop the run, any other error does.
_FINISHED = """() => {
    const cells = window.cepbookPanel.content.widgets.map(w => w.model)
        .filter(m => m.type === 'code' && m.sharedModel.getSource().trim() !== '');
    const expected = m => (m.getMetadata('tags') || []).includes('raises-exception');
    const failed = m => !expected(m) && m.outputs.toJSON().some(o => o.output_type === 'error');
    const idle = window.cepbookPanel.sessionContext.session?.kernel?.status === 'idle';
    return idle && (cells.some(failed)
        || cells.every(m => m.executionCount !== null && m.executionState !== 'running'));
}"""
_RUN_CELL = """i => {
    window.cepbookPanel.content.activeCellIndex = i;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
_CELLS = """() => window.cepbookPanel.content.widgets.map(w => ({
    type: w.model.type,
    source: w.model.sharedModel.getSource(),
    tags: w.model.getMetadata('tags') || [],
    count: w.model.executionCount ?? null,
    outputs: w.model.type === 'code' ? w.model.outputs.toJSON() : [],
}))"""
# Only cells in view are in the DOM, so scroll first; the marker makes the cell's node addressable.
_SHOW = """async i => {
    const notebook = window.cepbookPanel.content;
    await notebook.scrollToItem(i, 'center');
    notebook.widgets[i].node.dataset.cepbookCell = i;
}"""
_BOTTOM = """() => {
    const node = window.cepbookPanel.content.widgets.at(-1).node;
    return node.isConnected ? Math.ceil(node.getBoundingClientRect().bottom) : Infinity;
}"""


@dataclass(slots=True)
class NotebookPage:
    """One notebook, open in JupyterLab."""

    page: Page
    external: list[str] = field(default_factory=list)
    """Addresses outside this machine that something asked for; every such request was refused."""
    page_errors: list[str] = field(default_factory=list)
    """Uncaught JavaScript errors."""
    dialogs: list[str] = field(default_factory=list)
    """What the browser asked or told in dialogs of its own, such as `alert`; each was dismissed."""

    def run_all(self, *, timeout: float = 300) -> None:
        """Run all cells and wait (at most *timeout* seconds) until all have run or one failed unexpectedly."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(_FINISHED, timeout=timeout * 1000, polling=200)

    def run_cell(self, *indices: int, wait: bool = True) -> None:
        """Run one cell after the other; without *wait* go on as soon as the kernel was asked."""
        for index in indices:
            self.page.evaluate(_RUN_CELL if wait else _RUN_CELL.replace("return ", "void "), index)

    def cells(self) -> list[dict[str, Any]]:
        """Every cell as `{type, source, tags, count, outputs}`; *outputs* as in the notebook format."""
        cells: list[dict[str, Any]] = self.page.evaluate(_CELLS)
        return cells

    def cell(self, index: int) -> Locator:
        """The cell at *index* (0 is the first), scrolled into view."""
        self.page.evaluate(_SHOW, index)
        return self.page.locator(f"[data-cepbook-cell='{index}']")

    def index(self, text: str) -> int:
        """The index of the first code cell whose source contains *text*."""
        for index, cell in enumerate(self.cells()):
            if cell["type"] == "code" and text in cell["source"]:
                return index
        raise LookupError(f"no code cell contains {text!r}")

    def with_output(self, mime_type: str) -> list[int]:
        """The indices of the cells that have an output of *mime_type*."""
        return [
            index
            for index, cell in enumerate(self.cells())
            if any(mime_type in output.get("data", {}) for output in cell["outputs"])
        ]

    def errors(self) -> list[str]:
        """Errors in the outputs, as `cell 3: NameError: …`, but for those of cells tagged `raises-exception`."""
        return [
            f"cell {index}: {output['ename']}: {output['evalue']}"
            for index, cell in enumerate(self.cells())
            if "raises-exception" not in cell["tags"]
            for output in cell["outputs"]
            if output["output_type"] == "error"
        ]

    def screenshot(self, path: Path) -> None:
        """A picture of the whole notebook: the window is made as high as the notebook for it."""
        self.page.evaluate(_SHOW, 0)
        for height in HEIGHTS:  # cells are laid out when they come into view
            self.page.set_viewport_size({"width": WIDTH, "height": height})
            self.page.wait_for_timeout(800)
            bottom = self.page.evaluate(_BOTTOM)
            if bottom < height:
                self.page.set_viewport_size({"width": WIDTH, "height": max(bottom + 60, HEIGHT)})
                self.page.wait_for_timeout(300)
                break
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)
        self.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


@dataclass(slots=True)
class LabPage:
    """JupyterLab in one page of a browser, in which one notebook after the other is opened."""

    page: Page
    server: LabServer
    _shown: NotebookPage | None = None

    def load(self) -> None:
        """Load JupyterLab with a workspace of its own, which restores nothing."""
        workspace = f"{self.server.address}/lab/workspaces/{secrets.token_hex(4)}"
        self.page.goto(f"{workspace}?token={self.server.token}", wait_until="domcontentloaded")
        self.page.wait_for_function("() => window.jupyterapp !== undefined", polling=100)

    @contextmanager
    def open(self, path: str) -> Iterator[NotebookPage]:
        """Open the notebook at *path* (relative to the server's root), its kernel idle; closed on exit."""
        if not (self.server.root / path).is_file():
            raise FileNotFoundError(f"no notebook {path}")
        self._shown = NotebookPage(self.page)
        try:
            self.page.evaluate(_OPEN, path)
            self.page.wait_for_function(_READY, polling=100)
            self.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
            yield self._shown
        finally:
            self._shown = None
            with suppress(Error):  # nothing to shut down when the page or the browser is gone already
                self.page.evaluate("() => window.cepbookPanel?.sessionContext.shutdown()")
                if self.page.evaluate(_RELOADED):  # JupyterLab opens what it restored once more, seconds later
                    self.load()
                self.page.evaluate(_AS_IT_WAS)
                self.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                self.page.mouse.move(0, 0)


def settled(page: Page, read: Callable[[], T], accept: Callable[[T], object]) -> T:
    """What `read` gives as soon as `accept` holds for it; what it gives after `ANSWER` seconds if it never does."""
    end = time.monotonic() + ANSWER
    while not accept(value := read()) and time.monotonic() < end:
        page.wait_for_timeout(100)
    return value


def take_picture(target: Locator, path: Path) -> None:
    """Save a picture of `target`, and begin anew, for at most `ANSWER` seconds, if it is drawn anew meanwhile."""
    end = time.monotonic() + ANSWER
    while True:
        try:
            target.screenshot(path=path)
        except Error as exc:
            if "not attached" not in exc.message or time.monotonic() > end:
                raise
        else:
            return


@contextmanager
def lab_page(browser: Browser, server: LabServer, *, timeout: float = 120) -> Iterator[LabPage]:
    """JupyterLab, restored, in a browser context of its own."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    context.set_default_timeout(timeout * 1000)
    page = context.new_page()
    lab = LabPage(page, server)

    def guard(route: Route) -> None:
        host = urlsplit(route.request.url).hostname
        if host is None or host in LOOPBACK:
            route.continue_()
        else:
            if lab._shown is not None:
                lab._shown.external.append(route.request.url)
            route.abort()

    def note(text: str) -> None:
        if lab._shown is not None:
            lab._shown.page_errors.append(text)

    def dismiss(dialog: Dialog) -> None:
        if lab._shown is not None:
            lab._shown.dialogs.append(dialog.message)
        dialog.dismiss()

    context.route(re.compile(r"^(https?|wss?):"), guard)
    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: note(str(error)))
    try:
        lab.load()
        yield lab
    finally:
        context.close()


@contextmanager
def open_notebook(browser: Browser, server: LabServer, path: str, *, timeout: float = 120) -> Iterator[NotebookPage]:
    """Open the notebook at *path* (relative to the server's root) in a fresh browser context, its kernel idle."""
    with lab_page(browser, server, timeout=timeout) as lab, lab.open(path) as notebook:
        yield notebook


def write_notebook(path: Path, sources: Sequence[str]) -> None:
    """A notebook of code cells with the ids c0, c1, … that nobody has run."""
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook))
