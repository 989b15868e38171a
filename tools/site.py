"""Build the documentation site into build/site: `python tools/site.py`, which `make docs` calls. It needs no network.

With ``--publish FOLDER --address URL`` the site becomes one version of several: it is copied into FOLDER/VERSION, and
its pages have a list of all versions in FOLDER, which is served at URL. ``--version NAME`` is another name than that of
the release, such as `dev`.

The Markdown pages, the notebooks with their stored outputs and the READMEs of the folders are the sources. They are
copied into build/site-source under the addresses of the site, and their links are changed accordingly. A link to a file
that is no page becomes plain text. Warnings of Sphinx are errors. Then every link and every anchor within the site is
checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from os.path import relpath
from pathlib import Path
from urllib.parse import unquote

import cepbook

ROOT = Path(__file__).resolve().parent.parent
PLAYGROUND = ROOT / "build" / "playground"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
NO_PLAYGROUND = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Playground</title>
<main><h1>Playground</h1><p>This copy of the site was built without the playground. <code>make playground docs</code>
builds both.</p><p><a href="../index.html">Documentation</a></p></main></html>
"""
INTERNALS = """# Internals

How cepbook is put together, and how to change it. The [architecture](architecture.md) follows one event through all
parts, [contributing](contributing.md) adds a function in ten minutes, and [tests](tests.md) says what stands where.
Each folder has a page of its own.
"""
# Colours of the drawings, and what they are on a dark page.
DARK = {
    "white": "#14181e",
    "#57606a": "#b1bac4",
    "#0969da": "#58a6ff",
    "#d0d7de": "#484f58",
    "#eaeef2": "#30363d",
    "#2da44e": "#3fb950",
    "#cf222e": "#ff7b72",
}
LATEST = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>cepbook</title>
<meta http-equiv="refresh" content="0; url={0}/index.html"><p><a href="{0}/index.html">cepbook {0}</a></p></html>
"""
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "concepts": "Concepts",
    "reference": "Reference",
    "coming_from": "Coming from",
    "notebooks": "Notebooks",
    "internals": "Internals",
}
# Pages that stand elsewhere on the site than in the repository.
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "docs/cheat_sheet.md": "reference/cheat_sheet.md",
    "docs/epl_for_sql.md": "coming_from/sql.md",
    "benchmarks/README.md": "performance.md",
    "ARCHITECTURE.md": "internals/architecture.md",
    "GLOSSARY.md": "reference/glossary.md",
    "CONTRIBUTING.md": "internals/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "tests/README.md": "internals/tests.md",
    "tests/corpus/README.md": "internals/corpus.md",
}


def site_path(path: Path) -> str | None:
    """Return the place of a file of the repository in the sources of the site, or None if it is no page."""
    name = path.relative_to(ROOT).as_posix()
    if name in MOVED:
        return MOVED[name]
    if name.startswith("docs/") and not name.startswith("docs/playground/") and path.suffix in (".md", ".svg", ".png"):
        return name.removeprefix("docs/").replace("README.md", "index.md")
    if name.startswith("notebooks/") and path.suffix == ".ipynb":
        return name
    folder = re.fullmatch(r"cepbook/([\w/]+)/README\.md", name)
    return f"internals/{folder[1].replace('/', '_')}.md" if folder else None


def sources() -> dict[Path, str]:
    """Return all files of the repository that belong to the site, with their places in its sources."""
    patterns = [
        "*.md",
        "docs/**/*",
        "notebooks/*.ipynb",
        *(f"{f}/**/README.md" for f in ("benchmarks", "cepbook", "tests")),
    ]
    paths = sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()})
    places = {path: site_path(path) for path in paths}
    return {path: place for path, place in places.items() if place is not None}


def dark_twin(picture: Path) -> Path | None:
    """Return the path of a picture for dark pages; None if there is none. Drawings get theirs in `stage`."""
    twin = picture.with_stem(f"{picture.stem}-dark")
    return twin if picture.suffix == ".svg" or twin.exists() else None


def relinked(text: str, path: Path, place: str, places: dict[Path, str]) -> str:
    """Return the text of a page with links between places of the site, and pictures for both themes."""

    def change(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        file, _, anchor = target.partition("#")
        if path.suffix == ".ipynb" or file.endswith(".ipynb"):  # JupyterLab's anchors are the words of the heading
            anchor = re.sub(r"[^\w-]", "", anchor.lower())
        if "://" in target or not file:
            return f"{mark}[{words}](#{anchor})" if anchor else link[0]
        words = LINK.sub(change, words)
        aim = (path.parent / file).resolve()
        aim = aim / "README.md" if aim.is_dir() else aim
        if aim not in places:
            return link[0] if mark else words
        new = relpath(places[aim], Path(place).parent.as_posix() or ".")
        twin = dark_twin(aim) if mark else None
        if twin is not None:
            dark = Path(new).with_name(twin.name).as_posix()
            return f"![{words}]({new}){{.only-light}} ![{words}]({dark}){{.only-dark}}"
        return f"{mark}[{words}]({new}{'#' if anchor else ''}{anchor})"

    done = []
    end = 0
    for fence in FENCE.finditer(text):
        done += [LINK.sub(change, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*done, LINK.sub(change, text[end:])])


def toctree(entries: list[str]) -> str:
    """Return a directive with the pages of a navigation, which it does not display: `PATH` or `Title <PATH>`."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def section_text(name: str) -> str:
    """Return the part of docs/README.md below a heading, as a page."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    body = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    return f"# {name}\n{body.replace(chr(10) + '### ', chr(10) + '## ')}"


def stage(folder: Path) -> None:
    """Write the sources of the site into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    places = sources()
    for path, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = relinked(path.read_text(encoding="utf-8"), path, place, places)
            target.write_text(text, encoding="utf-8")
        elif path.suffix == ".ipynb":
            book = json.loads(path.read_text(encoding="utf-8"))
            for cell in book["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = relinked("".join(cell["source"]), path, place, places)
            target.write_text(json.dumps(book), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
            if path.suffix == ".svg":
                drawing = re.sub("|".join(DARK), lambda colour: DARK[colour[0]], path.read_text(encoding="utf-8"))
                target.with_stem(f"{target.stem}-dark").write_text(drawing, encoding="utf-8")
    index = ROOT / "docs" / "README.md"
    for name, heading in {"how-to": "How to", "concepts": "Concepts", "notebooks": "Notebooks"}.items():
        text = relinked(section_text(heading), index, f"{name}/index.md", places)
        (folder / name / "index.md").write_text(text, encoding="utf-8")
    (folder / "internals" / "index.md").write_text(INTERNALS, encoding="utf-8")
    for name in SECTIONS:
        page = folder / name / "index.md"
        text = page.read_text(encoding="utf-8")
        names = sorted(p.name for p in page.parent.iterdir() if p.suffix in (".md", ".ipynb") and p.name != "index.md")
        # In the order in which the page mentions them; the others follow.
        names.sort(key=lambda name: at if (at := text.find(f"]({name})")) >= 0 else len(text))
        page.write_text(text + toctree([name.rpartition(".")[0] for name in names]), encoding="utf-8")
    titles = [f"{title} <{name}/index>" for name, title in SECTIONS.items()]
    with (folder / "index.md").open("a", encoding="utf-8") as file:
        file.write(toctree([*titles, "Performance <performance>", "Changelog <changelog>", "Security <security>"]))
        file.write(toctree(["All pages <contents>"]))


def sphinx(sources_: Path, out: Path, version: str | None) -> int:
    """Run Sphinx; return its exit status. With a `version` the pages have the list of versions beside the site."""
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-b", "html"]
    folders = ["-c", str(ROOT / "docs" / "site"), "-d", str(sources_.parent / "doctrees"), str(sources_), str(out)]
    environment = {**os.environ, "CEPBOOK_SITE_VERSION": version or ""}
    return subprocess.run([*command, *folders], cwd=ROOT, check=False, env=environment).returncode


class PageLinks(HTMLParser):
    """The targets of the links of a page, the files that it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag in ("img", "script", "source", "iframe") and "src" in values:
            self.loads.add(values["src"])
        elif tag == "link" and "href" in values:
            self.loads.add(values["href"])


def broken(site: Path) -> list[str]:
    """Return the links within *site* that lead nowhere, and the files that a page loads from elsewhere."""
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: PageLinks(path.read_text(encoding="utf-8")) for path in files}
    problems = []
    for path, page in pages.items():
        if path.is_relative_to(site / "playground"):
            continue
        name = path.relative_to(site)
        problems += [f"{name} loads {target}" for target in page.loads if re.match(r"(https?:)?//", target)]
        for target in sorted(page.links | page.loads):
            if re.match(r"(\w+:|//)", target):
                continue
            file, _, anchor = target.partition("#")
            aim = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            aim = aim / "index.html" if aim.is_dir() else aim
            anchors = pages[aim].anchors if aim in pages and "=" not in anchor else {unquote(anchor)}
            if not aim.exists() or (anchor and unquote(anchor) not in anchors):
                problems.append(f"{name}: {target[:200]}")
    return problems


def add_playground(site: Path) -> None:
    """Copy the playground into the site, or a page that says how it is built."""
    target = site / "playground"
    shutil.rmtree(target, ignore_errors=True)
    if (PLAYGROUND / "index.html").exists():
        shutil.copytree(PLAYGROUND, target)
    else:
        target.mkdir()
        (target / "index.html").write_text(NO_PLAYGROUND, encoding="utf-8")


def publish(site: Path, folder: Path, address: str, version: str) -> None:
    """Copy a site into a folder of versions, and write their list. The start page leads to the latest release."""
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    names = [path.parent.name for path in folder.glob("*/searchindex.js")]
    names.sort(key=lambda name: (name[:1].isdigit(), list(map(int, re.findall(r"\d+", name)))), reverse=True)
    versions = [
        {"version": name, "url": f"{address.rstrip('/')}/{name}/", "preferred": name == names[0]} for name in names
    ]
    (folder / "versions.json").write_text(json.dumps(versions, indent=1), encoding="utf-8")
    (folder / "index.html").write_text(LATEST.format(names[0]), encoding="utf-8")
    (folder / ".nojekyll").touch()  # GitHub Pages would leave out `_static`


def build(out: Path, work: Path, version: str | None = None) -> list[str]:
    """Build the site into *out*, with its sources in the folder *work*; return what is wrong with it."""
    stage(work)
    shutil.rmtree(out, ignore_errors=True)
    if sphinx(work, out, version):
        return ["Sphinx reports warnings or errors, see above"]
    add_playground(out)
    return broken(out)


def main() -> int:
    parser = argparse.ArgumentParser(description="build the documentation site")
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="add the site to this folder of versions")
    parser.add_argument("--address", metavar="URL", help="where the folder of versions is served")
    parser.add_argument("--version", default=cepbook.__version__, help="the name of this version")
    options = parser.parse_args()
    if (options.publish is None) != (options.address is None):
        parser.error("--publish and --address belong together")
    start = time.monotonic()
    out = ROOT / "build" / "site"
    problems = build(out, ROOT / "build" / "site-source", options.version if options.publish else None)
    print("\n".join(problems))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    pages, seconds = len(list(out.rglob("*.html"))), time.monotonic() - start
    print(f"build/site: {pages} pages, {size / 1e6:.1f} MB, {len(problems)} problems ({seconds:.0f} s)")
    if options.publish and not problems:
        publish(out, options.publish, options.address, options.version)
        print(f"{options.publish}: version {options.version}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
