"""Builds the playground, a page that runs EPL in the browser, into build/playground; needs node and npm.

    python tools/playground.py                # build
    python tools/playground.py --serve 8000   # build, and serve at http://localhost:8000

The page is static: any file server can serve it. Pyodide, the editor and esbuild are taken by npm, the packages of
Python as wheels by pip. All of it is served by the site itself. Node runs the packages once and takes a picture of the
memory behind all imports, from which the page starts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cepbook.dialects.registry import DIALECTS  # noqa: E402
from cepbook.testing.scenario import ModuleFence, QueryFence, ScenarioCase, TraceFence, read  # noqa: E402

SOURCES = ROOT / "docs" / "playground"
OUTPUT = ROOT / "build" / "playground"
NODE_MODULES = ROOT / "build" / "playground-npm"
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
REQUIREMENTS = ("lark>=1.2,<2", "sortedcontainers>=2.4,<3", "croniter>=7,<8", "tzdata")
# Parts of the package that need what a browser has not: they would only make the archive larger.
LEFT_OUT = ("spark", "magics", "widgets", "charts", "cli", "session/journal", "session/replay")
STATIC = ("index.html", "style.css", "worker.js", "memory.js")
EXAMPLES = {"Ten problems": SOURCES / "examples.md", "Data windows": SOURCES / "windows.md"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve the page after the build")
    parser.add_argument(
        "--corpus", type=int, metavar="COUNT", help="run so many cases of the corpus under Pyodide; 0: all"
    )
    options = parser.parse_args()
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        sys.exit(f"playground: {' and '.join(missing)} not found; the page is built with node 20 or newer and npm")
    build(OUTPUT)
    for name, size in sizes(OUTPUT):
        print(f"{size / 1e6:7.2f} MB  {name}")
    if options.corpus is not None:
        answer = corpus(OUTPUT, options.corpus)
        print(f"{answer['cases'] - len(answer['wrong'])} of {answer['cases']} cases of the corpus agree")
        for name, difference in answer["wrong"]:
            print(f"{name}\n{difference}")
    if options.serve is not None:
        serve(OUTPUT, options.serve)


def build(output: Path) -> None:
    """Build the page into `output`, unless it was built from the same sources.

    What was there is replaced when everything is complete. Raises CalledProcessError if a command fails.
    """
    digest = source_digest()
    record = output / "sources.sha256"
    if record.is_file() and record.read_text(encoding="utf-8") == digest:
        return
    install()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "playground"
        (page / "pyodide").mkdir(parents=True)
        for name in STATIC:
            shutil.copy(SOURCES / name, page)
        for name in PYODIDE:
            shutil.copy(NODE_MODULES / "node_modules" / "pyodide" / name, page / "pyodide")
        write_packages(page / "packages.zip", Path(folder) / "wheels")
        bundle(page)
        memory = Path(folder) / "memory.bin"
        run("node", SOURCES / "take_memory.mjs", page / "pyodide", page / "packages.zip", memory)
        compressed = gzip.compress(memory.read_bytes(), 6, mtime=0)
        (page / "memory.bin.gz").write_bytes(compressed)
        write_offline(page, digest)
        (page / record.name).write_text(digest, encoding="utf-8")
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(page, output)


def source_digest() -> str:
    """Return a digest of everything that the page is built from in this repository."""
    digest = hashlib.sha256()
    folders = (ROOT / "cepbook", SOURCES)
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in (Path(__file__), ROOT / "pyproject.toml", *files):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def corpus(page: Path, count: int) -> dict[str, Any]:
    """Run `count` cases of the corpus (0: all), drawn at random, under Pyodide. Return their number and failures."""
    with tempfile.TemporaryDirectory() as folder:
        archive = shutil.make_archive(str(Path(folder) / "corpus"), "zip", ROOT / "tests" / "corpus")
        script = ROOT / "tests" / "playground" / "corpus.mjs"
        command = ["node", str(script), str(page), archive, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def install() -> None:
    """Take the packages of npm, unless those of this package.json are there."""
    text = (SOURCES / "package.json").read_text(encoding="utf-8")
    record = NODE_MODULES / "installed.sha256"
    digest = hashlib.sha256(text.encode()).hexdigest()
    if record.is_file() and record.read_text() == digest:
        return
    shutil.rmtree(NODE_MODULES, ignore_errors=True)
    NODE_MODULES.mkdir(parents=True)
    (NODE_MODULES / "package.json").write_text(text, encoding="utf-8")
    run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", cwd=NODE_MODULES)
    record.write_text(digest)


def write_packages(archive: Path, wheels: Path) -> None:
    """Write the wheel of cepbook and those of its requirements as one archive of packages."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT)
    run(*pip, "download", "--only-binary=:all:", "--dest", wheels, *REQUIREMENTS)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for wheel in sorted(wheels.iterdir()):
            with zipfile.ZipFile(wheel) as source:
                for name in sorted(source.namelist()):
                    if not name.startswith(tuple(f"cepbook/{part}/" for part in LEFT_OUT)) and not name.endswith("/"):
                        # no time of the build, so that equal sources make an equal archive
                        target.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED)


def bundle(page: Path) -> None:
    """Bundle the script of the page with the editor and the examples."""
    with tempfile.TemporaryDirectory(dir=NODE_MODULES) as folder:
        work = Path(folder) / "docs" / "playground"
        shutil.copytree(SOURCES, work)
        words = ROOT / "cepbook" / "magics" / "labextension" / "src"
        shutil.copytree(words, Path(folder) / "cepbook" / "magics" / "labextension" / "src")
        (work / "examples.json").write_text(json.dumps(examples()), encoding="utf-8")
        esbuild = NODE_MODULES / "node_modules" / ".bin" / "esbuild"
        options = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--log-level=warning")
        run(esbuild, work / "page.js", *options, f"--outfile={page / 'page.js'}")


def write_offline(page: Path, version: str) -> None:
    """Write the service worker, which keeps all files of the page under this version."""
    files = sorted(name for name, _ in sizes(page))
    text = (SOURCES / "offline.js").read_text(encoding="utf-8")
    text = text.replace("'VERSION'", json.dumps(version)).replace("['FILES']", json.dumps(["./", *files]))
    (page / "offline.js").write_text(text, encoding="utf-8")


def examples() -> list[dict[str, Any]]:
    """Return the cases of the example files by group, as texts for the page."""
    groups = []
    for group, path in EXAMPLES.items():
        lines = path.read_text(encoding="utf-8").split("\n")
        groups.append({"group": group, "examples": [example(case, lines) for case in read(path).cases]})
    return groups


def example(case: ScenarioCase, lines: list[str]) -> dict[str, Any]:
    """Return one case of a file with these lines as texts for the page."""
    magics = {row.name: row.magic for row in DIALECTS.values()}
    module: list[str] = []
    scenario: list[str] = []
    for fence in case.fences:
        match fence:
            case ModuleFence(epl):
                module.append(epl if not module else f"%%epl\n{epl}")
            case QueryFence(dialect, name, text):
                module.append(f"%%{magics[dialect]} {name}\n{text}")
            case TraceFence():
                scenario += lines[fence.line : fence.last_line - 1]
    name = case.name.lower().replace(" ", "-").strip("?.")
    texts = {"module": "\n\n".join(module) + "\n", "scenario": "\n".join(scenario) + "\n"}
    return {"name": name, "title": case.name, "prose": " ".join(case.prose.split()), **texts}


def run(*command: object, cwd: Path = ROOT) -> None:
    """Run a command, and end with its error if it fails."""
    environment = {**os.environ, "PIP_NO_COLOR": "1"}
    subprocess.run([str(word) for word in command], cwd=cwd, check=True, env=environment)


def sizes(page: Path) -> list[tuple[str, int]]:
    """Return the files of the page with their sizes in bytes, the largest first."""
    files = [(path.relative_to(page).as_posix(), path.stat().st_size) for path in page.rglob("*") if path.is_file()]
    return sorted(files, key=lambda entry: -entry[1])


class PageHandler(SimpleHTTPRequestHandler):
    """Serves the page with the types that modules and WebAssembly need."""

    extensions_map: ClassVar[dict[str, str]] = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
        ".gz": "application/octet-stream",
    }

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def serve(page: Path, port: int) -> None:
    """Serve the page until Ctrl-C."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(PageHandler, directory=str(page))) as server:
        print(f"http://localhost:{port}/index.html")
        server.serve_forever()


if __name__ == "__main__":
    main()
