"""Run the code blocks of README.md and docs, and compare or record their output.

``python tools/documents.py`` checks every page, ``python tools/documents.py PAGE …`` some pages. With ``--record`` the
output blocks are rewritten with the real output. ``--spark`` starts a local Spark session for pages that start with
``<!-- spark -->`` and for blocks below this comment. The tests in ``tests/test_docs.py`` call the same functions.

How a page is read:

* Each page is one notebook session in an empty folder. The extension is loaded unless the page itself loads it.
* A ``python`` block is a cell. An ``epl`` block is a cell if it starts with ``%%``, otherwise it is deployed.
* A ``text`` block directly after a block that ran is its output. A line ``…`` stands for any lines. What a block prints
  must be on the page; the value of its last line may be left out.
* In a ``sh`` block the lines that start with ``cepbook`` run in this process, ``pytest`` and ``jupyter`` in their own.
  Other programs (``make``, ``pip``, Spark jobs) are checked by other tests.
* ``<!-- continues: PAGE -->`` at the top of a page runs the blocks of another page before it, in the same session.
* ``<!-- script -->`` at the top of a page: its Python is a script, which shows no values of last lines.
* A comment above a block changes this: ``<!-- file: NAME -->`` writes the block to a file, ``<!-- picture -->`` allows
  output that the page shows as a picture, ``<!-- no run: REASON -->`` skips the block, ``<!-- raises -->`` expects an
  error, ``<!-- spark -->`` runs the block only where Spark is available (``--spark``).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n\n?)?^(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$",
    flags=re.DOTALL | re.MULTILINE,
)
SPARK = "<!-- spark -->"
SCRIPT = "<!-- script -->"
CONTINUES = re.compile(r"^<!-- continues: (\S+) -->$", re.MULTILINE)
CHECKED_ELSEWHERE = ("make", "pip", "git", "python -m cepbook.spark", "spark-submit", "python tools")
VALUE = re.compile(r"^Out\[\d+\]: ?\n?", re.MULTILINE)  # what IPython writes before the value of a cell
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page; `start` and `end` delimit its text in the page."""

    language: str
    text: str
    note: str
    start: int
    end: int
    line: int

    @property
    def is_cell(self) -> bool:
        """True if the block runs as a notebook cell."""
        return self.language in ("python", "epl") and not self.note.startswith(("file:", "no run"))


def blocks(page: str) -> list[Block]:
    """Return all fenced blocks in order; a block inside a longer fence belongs to the text of the longer one."""
    return [
        Block(m["language"], m["text"], m["note"] or "", *m.span("text"), line=page.count("\n", 0, m.start()) + 1)
        for m in FENCE.finditer(page)
    ]


def pages() -> list[Path]:
    """Return README.md and all pages of docs that people write."""
    folders = ("tutorial", "how-to", "concepts", "coming_from")
    written = [path for folder in folders for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/reference/limits.md", *written]


def needs_spark(path: Path) -> bool:
    """Return whether no block of the page runs without Spark: the page begins with the comment."""
    return path.read_text(encoding="utf-8").startswith(SPARK)


def mentions_spark(path: Path) -> bool:
    """Return whether some block of the page needs Spark."""
    return SPARK in path.read_text(encoding="utf-8")


class PageError(AssertionError):
    """A block fails, or its output differs from the page."""


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """An IPython shell in an empty folder."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config as Settings

    settings = Settings()
    settings.HistoryManager.enabled = False  # the reader's own history stays as it is
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        os.chdir(folder)
        try:
            shell = InteractiveShell(config=settings)
            shell.colors = "nocolor"
            yield shell
        finally:
            os.chdir(before)


def run_cell(shell: Any, source: str) -> tuple[str, bool, BaseException | None]:
    """Run one cell; return its output as text, whether it printed anything beside its value, and its error."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        result = shell.run_cell(source)
    text = printed.getvalue()
    return _plain(text), bool(VALUE.split(text)[0].strip()), result.error_before_exec or result.error_in_exec


def _plain(text: str) -> str:
    text = VALUE.sub("", COLOURS.sub("", text))
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines()).strip("\n")


def run_command(line: str) -> str:
    """Run one line of a shell block; return what a command of cepbook prints."""
    words = shlex.split(line.removeprefix("$ ").partition(" # ")[0])
    if words[0] == "cepbook":
        from cepbook.cli import main

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(words[1:])
        if code:
            raise PageError(f"{line}: exit code {code}\n{printed.getvalue()}")
        return _plain(printed.getvalue())
    if words[0] in ("pytest", "jupyter"):
        own = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, env=own)
        if done.returncode:
            raise PageError(f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return ""
    if not line.removeprefix("$ ").startswith(CHECKED_ELSEWHERE):
        raise PageError(f"no rule says how `{line}` is tested")
    return ""


def matches(expected: str, printed: str) -> bool:
    """Return whether the output is as expected; a line ``…`` in it stands for any lines."""
    pieces = re.split(r"^ *…$", expected.strip("\n"), flags=re.MULTILINE)
    return re.fullmatch(".*".join(re.escape(piece) for piece in pieces), printed, flags=re.DOTALL) is not None


def outputs(path: Path, spark: Any = None) -> Iterator[tuple[Block, Block | None, str]]:
    """Run a page; for each block that ran yield the block, the block of its output if there is one, and the output.

    Blocks for Spark run only with a session `spark`, which they know by this name.
    """
    with session() as shell:
        shell.user_ns.update({} if spark is None else {"spark": spark})
        chain = [path]
        while before := CONTINUES.search(chain[0].read_text(encoding="utf-8")):
            chain.insert(0, chain[0].parent / before[1])
        if not any("%load_ext cepbook" in block.text for block in blocks(chain[0].read_text(encoding="utf-8"))):
            shell.run_line_magic("load_ext", "cepbook")
        for page in chain:
            for result in _run(page, shell, spark is not None):
                if page == path:
                    yield result


def _run(path: Path, shell: Any, on_spark: bool) -> Iterator[tuple[Block, Block | None, str]]:
    page = path.read_text(encoding="utf-8")
    found = blocks(page)
    shown = None
    for block, after in zip(found, [*found, None][1:], strict=True):
        if block is shown:
            continue
        place = f"{path.relative_to(ROOT)}:{block.line}"
        shown = after if after is not None and after.language == "text" and not after.note else None
        if block.note.startswith("no run") or (block.note == "spark" and not on_spark):
            continue
        if block.note.startswith("file: "):
            target = Path(block.note.removeprefix("file: "))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
            shown = None
            continue
        required = False
        if block.is_cell:
            cell = block.language == "python" or block.text.startswith("%%")
            end = "pass\n" if SCRIPT in page else ""  # a script shows no values
            printed, required, error = run_cell(shell, block.text + end if cell else f"%%epl --quiet\n{block.text}")
            if (error is not None) != (block.note == "raises"):
                raise PageError(f"{place}: {error!r}\n{printed}")
        elif block.language == "sh":
            printed = "\n".join(filter(None, map(run_command, block.text.replace("\\\n", "").splitlines())))
        else:
            raise PageError(f"{place}: nothing says how this `{block.language}` block is tested")
        required &= block.note != "picture" and not block.text.startswith("%%epl")
        if shown is None and required:
            raise PageError(f"{place}: prints what the page does not show:\n{printed}")
        yield block, shown, printed


def check(path: Path, spark: Any = None) -> int:
    """Run a page; raise PageError where a block fails or prints anything but what stands below it."""
    count = 0
    for block, shown, printed in outputs(path, spark):
        count += 1
        if shown is not None and not matches(shown.text, printed):
            place = f"{path.relative_to(ROOT)}:{block.line}"
            raise PageError(f"{place} prints\n{printed}\n\nthe page shows\n{shown.text}")
    return count


def record(path: Path, spark: Any = None) -> bool:
    """Run a page and write the real output into it; return whether the page changed."""
    page = path.read_text(encoding="utf-8")
    changes = [(s, printed) for _, s, printed in outputs(path, spark) if s and not matches(s.text, printed)]
    text = page
    for shown, printed in reversed(changes):
        text = f"{text[: shown.start]}{printed}\n{text[shown.end :]}"
    if text != page:
        path.write_text(text, encoding="utf-8")
    return text != page


def main(words: list[str]) -> int:
    sys.path.insert(0, str(ROOT))  # this tree, whatever is installed
    os.environ.setdefault("CEPBOOK_PROGRESS", "off")
    named = [Path(word).resolve() for word in words if not word.startswith("--")]
    failed, spark = 0, None
    if "--spark" in words:
        from cepbook.spark import local_session

        spark = local_session()
    for path in named or pages():
        if needs_spark(path) and spark is None:
            continue
        try:
            if "--record" in words:
                print(f"{path.relative_to(ROOT)}: {'recorded' if record(path, spark) else 'as it was'}", flush=True)
            else:
                print(f"{path.relative_to(ROOT)}: {check(path, spark)} blocks", flush=True)
        except PageError as error:
            failed += 1
            print(error)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
