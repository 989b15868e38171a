"""The shape of the code: allowed imports, file lengths, and documents whose paths and commands are real."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from importlinter.cli import lint_imports

from cepbook import Workbench
from cepbook.dialects.registry import DIALECTS
from cepbook.lang import types
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES, CYCLE_WINDOWS
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.source_text import EPL

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "cepbook").rglob("*.py"))
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "tests/README.md"]
FOLDERS = sorted({str(path.parent.relative_to(ROOT)) for path in (ROOT / "cepbook").rglob("*.py")})
MAX_LINES = 600
MOST_WITHOUT_NAMES = 9
MAX_ARCHITECTURE_LINES = 150
MAX_README_LINES = 60
# Words of these suffixes, or with a slash, are paths when a document sets them in backticks.
PATH = re.compile(r"[\w.*<>-]+(?:/[\w.*<>-]*)+|[\w-]+\.(?:py|md|toml|lark|js|css|ipynb)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """What several tests walk through."""
    return ast.parse(path.read_text(encoding="utf-8"))


def tracked() -> list[str]:
    """The files that git knows; of an unpacked archive, those that the source distribution holds."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    folders = ("cepbook", "tests", "tools", "notebooks", "docs", "benchmarks", "binder")
    return [relative(path) for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]


def test_imports_obey_the_contracts(capfd: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None)
    report = capfd.readouterr()
    assert status == 0, report.out + report.err


def test_no_import_by_name_goes_upwards() -> None:
    """The contracts see statements only, so the modules that functions import by their names are held to the layers."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    ranks = {
        name.strip("( )"): rank for rank, layer in enumerate(contracts[0]["layers"]) for name in layer.split("|")
    }  # 0 is on top

    def rank(module: str) -> int:
        return ranks.get(".".join(module.split(".")[:2]), -1)

    by_name = [
        (".".join(Path(relative(path)).with_suffix("").parts), module)
        for path in SOURCES
        for module in _imported_by_name(tree_of(path))
    ]
    assert not [pair for pair in by_name if rank(pair[0]) > rank(pair[1])]
    upwards = 'import_module("cepbook.widgets.charts")\nimportlib.import_module(f"cepbook.magics.{name}")'
    assert list(_imported_by_name(ast.parse(upwards))) == ["cepbook.widgets.charts", "cepbook.magics."]
    assert rank("cepbook.session.inspection_mixin") > rank("cepbook.widgets.charts") > rank("cepbook.magics")


def _imported_by_name(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of the package, or the beginnings of their names, that calls of `import_module` name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            for text in ast.walk(node):
                if isinstance(text, ast.Constant) and str(text.value).startswith("cepbook."):
                    yield str(text.value)


def test_a_forbidden_import_is_noticed(tmp_path: Path) -> None:
    """The contracts bite: a copy in which the language imports numpy, IPython and the engine breaks three of them."""
    package = tmp_path / "cepbook"
    for path in SOURCES:
        target = package / path.relative_to(ROOT / "cepbook")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (package / "lang" / "offender.py").write_text("import numpy\nimport IPython\nimport cepbook.engine\n")
    code = (
        "from importlinter.cli import lint_imports\n"
        f"raise SystemExit(lint_imports(config_filename={str(ROOT / 'pyproject.toml')!r}, cache_dir=None))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
                         env={**os.environ, "PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert run.returncode == 1, run.stdout + run.stderr
    broken = " ".join(line for line in run.stdout.splitlines() if "BROKEN" in line)
    assert all(name in broken for name in ("layers", "numpy only in", "IPython only in")), run.stdout


def test_no_file_is_too_long() -> None:
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_no_call_has_a_long_tail_of_values_without_names() -> None:
    """Of a dozen values in a row nobody sees which is which, and two of one type may change places unnoticed."""
    found = [
        f"{relative(path)}:{node.lineno}: {ast.unparse(node.func)} gets {len(node.args)}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and len(node.args) > MOST_WITHOUT_NAMES
    ]
    assert found == [], "name them"


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether *handler* catches every exception and does nothing with it."""
    caught = handler.type
    everything = caught is None or (isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException"))
    return everything and all(
        isinstance(node, ast.Pass | ast.Continue)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in handler.body
    )


def test_no_exception_is_swallowed() -> None:
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if "except" in path.read_text(encoding="utf-8")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and swallows(node)
    ]
    assert found == [], "there exceptions are lost"


def test_property_tests_are_no_part_of_the_quick_stage(request: pytest.FixtureRequest) -> None:
    marks = [({mark.name for mark in item.iter_markers()}, item.nodeid) for item in request.session.items]
    assert [name for names, name in marks if "hypothesis" in names and "histories" not in names] == []


def test_only_the_dialects_know_their_names() -> None:
    """Names of dialects and of their magics stand in no text of code elsewhere; docstrings may give sources."""
    own = {word for row in DIALECTS.values() if row.name != EPL for word in (row.name, row.magic)}
    assert own
    known = re.compile(rf"\b(?:{'|'.join(map(re.escape, own))})\b", re.IGNORECASE)
    found = []
    for path in SOURCES:
        if path.is_relative_to(ROOT / "cepbook" / "dialects"):
            continue
        text = path.read_text(encoding="utf-8")
        if not known.search(text):
            continue
        tree = tree_of(path)
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            words: list[str] = []
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                words = [node.value]
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                words = [getattr(node, "module", None) or "", *(each.name for each in node.names)]
            found += [f"{relative(path)}:{getattr(node, 'lineno', 0)}: {word}" for word in words if known.search(word)]
    assert not found, "\n".join(found)


def test_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= MAX_ARCHITECTURE_LINES


def paths_in(text: str) -> list[str]:
    """The paths that *text* names: in backticks or as link targets. Patterns with `<name>` stand for any file."""
    words = re.findall(r"`([^`\s]+)`", text) + re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [word for word in words if PATH.fullmatch(word) and "://" not in word]


@pytest.mark.parametrize("document", [*DOCUMENTS, *(f"{folder}/README.md" for folder in FOLDERS)])
def test_named_paths_exist(document: str) -> None:
    """Each folder of the package has a README of at most a page; documents name only paths that exist."""
    text = (ROOT / document).read_text(encoding="utf-8")
    missing = []
    for name in paths_in(text):
        pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
        if pattern.startswith((".venv", "build/")):
            continue  # made by commands
        folder = (ROOT / document).parent
        starts = [ROOT, folder, *(parent for parent in folder.parents if parent.is_relative_to(ROOT / "cepbook"))]
        if not any(next(start.glob(pattern), None) for start in (*starts, ROOT / "cepbook")):
            missing.append(name)
    assert missing == [], f"{document} names paths that do not exist"
    assert not document.startswith("cepbook/") or len(text.splitlines()) <= MAX_README_LINES


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_commands_are_real(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"`([^`\n]+)`", text) + blocks(text, "sh"))
    targets = set(re.findall(r"\bmake ([a-z][\w-]*)", code))
    known = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert targets <= known, f"{document} names make targets that do not exist"
    subprocess.run(["make", "--dry-run", *sorted(targets)], cwd=ROOT, check=True, capture_output=True)


def test_start_needs_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    start = re.search(r"^## Start\n(.*?)^## ", text, flags=re.DOTALL | re.MULTILINE)
    assert start is not None
    commands = [line.split("#")[0].strip() for block in blocks(start[1], "sh") for line in block.splitlines()]
    assert commands == ["make lab", "make test"]


def registry_hosts() -> set[str]:
    """Hosts of this machine's package mirrors, which are nobody else's business; the public ones may be named."""
    settings = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings += "\n".join(value for name, value in os.environ.items() if name.startswith(("PIP_", "NPM_CONFIG_")))
    hosts = {urlsplit(address).hostname or "" for address in re.findall(r"https?://[^\s'\"]+", settings)}
    return {host for host in hosts if host} - {"pypi.org", "files.pythonhosted.org", "registry.npmjs.org"}


def test_nothing_names_the_machine_it_was_written_on() -> None:
    # Written in pieces, so that this file does not name them itself.
    words = [*map("".join, (("/wo", "rk/"), ("../sh", "ared"), ("/ro", "ot/"))), *registry_hosts()]
    found = []
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", errors="replace")
        found += [f"{name}: {word}" for word in words if word in text]
    assert found == []


# Where aggregates are implemented: there they are keys of what makes them
MAKING = {f"cepbook/engine/aggregates/{name}.py" for name in ("accumulators", "incremental", "power_sums")}


def test_what_is_true_of_windows_and_aggregates_stands_in_their_rows() -> None:
    """No set of names: a tuple, list or set in which there is nothing but names of these, two or more."""
    names = {*WINDOWS, *AGGREGATES}
    pairs = re.compile(r'"(\w+)",\s*(?="(\w+)")')
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        if relative(path) not in MAKING
        if any(names.issuperset(pair) for pair in pairs.findall(path.read_text("utf-8")))
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)) and len(node.elts) > 1
        if all(isinstance(each, ast.Constant) and each.value in names for each in node.elts)
    ]
    assert found == [], "make it a field of WindowRow or AggregateRow"


def test_what_is_true_of_types_stands_in_one_place() -> None:
    """No two modules list the same types, four or more; `cepbook.lang.types` has what several ask for."""
    names = {*types.BY_NAME, "array", "event", "struct"}
    found: dict[frozenset[str], set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            texts = _texts(node) if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
            if len(texts) > 3 and names.issuperset(texts):
                found.setdefault(frozenset(texts), set()).add(relative(path))
    assert {" ".join(sorted(kinds)): sorted(paths) for kinds, paths in found.items() if len(paths) > 1} == {}


OWN = {*WINDOWS, *AGGREGATES, *FUNCTIONS, *METHODS, *CYCLE_WINDOWS, *CYCLE_AGGREGATES}
ASKING = tuple(f"cepbook/{folder}/" for folder in ("engine", "lang", "session", "spark"))
# Where names are looked at because something is made of them: aggregates, windows of cycles, what Spark calculates
# itself or by columns, and texts of other dialects
BY_NAME = {
    *MAKING,
    "cepbook/engine/cycles/stage_accumulators.py",
    "cepbook/engine/cycles/stage_windows.py",
    "cepbook/lang/explain/nearest_epl.py",
    "cepbook/spark/plan/vectorized_windows.py",
    "cepbook/spark/frames/native_batches.py",
}


def test_nobody_asks_a_window_an_aggregate_or_a_function_for_its_name() -> None:
    """No comparison with one of their names, but of a ``kind`` or with a word that a Literal has for something else."""
    texts_of = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    told_apart = {
        constant.value
        for path, text in texts_of.items()
        if "Literal[" in text
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"
        for constant in ast.walk(node.slice)
        if isinstance(constant, ast.Constant)
    }
    named = re.compile("|".join(f'"{re.escape(name)}"' for name in OWN))
    found = []
    for path, text in texts_of.items():
        name = relative(path)
        if name in BY_NAME or not name.startswith(ASKING):
            continue
        if name.startswith(("cepbook/dialects/", "cepbook/lang/syntax/reader/")):
            continue
        if not named.search(text):
            continue
        for line, asked, texts in _compared(tree_of(path)):
            if asked.rpartition(".")[2] != "kind" and texts & (OWN if asked.endswith(".name") else OWN - told_apart):
                found.append(f"{name}:{line}: {asked} is compared with {', '.join(sorted(texts))}")
    assert found == [], "make it a field of its row"


def _compared(tree: ast.Module) -> Iterator[tuple[int, str, set[str]]]:
    """What is compared with names of ours, or matched with them, and the names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = {text for side in sides for text in _texts(side)} & OWN
            if texts:
                yield from ((node.lineno, ast.unparse(side), texts) for side in sides if not _texts(side))
        elif isinstance(node, ast.Match):
            subject = ast.unparse(node.subject)
            for part in (part for case in node.cases for part in ast.walk(case.pattern)):
                if isinstance(part, ast.MatchValue):
                    yield part.lineno, subject, OWN.intersection(_texts(part.value))
                elif isinstance(part, ast.MatchClass):
                    for word, value in zip(part.kwd_attrs, part.kwd_patterns, strict=True):
                        if isinstance(value, ast.MatchValue):
                            yield part.lineno, f"{subject}.{word}", OWN.intersection(_texts(value.value))


def _texts(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def test_a_comparison_with_a_name_is_noticed() -> None:
    code = (
        'w.name == "groupwin"; "merge" not in names; call.name in ("avg", "count")\n'
        'match e:\n    case x.Call(name="coalesce"):\n        pass'
    )
    assert {asked: texts for _, asked, texts in _compared(ast.parse(code))} == {
        "w.name": {"groupwin"},
        "names": {"merge"},
        "call.name": {"avg", "count"},
        "e": {"coalesce"},
        "e.name": {"coalesce"},
    }


def test_no_module_imports_itself_through_others() -> None:
    """Imports in functions and under TYPE_CHECKING count as well."""
    circle = _in_circles()
    assert not circle, f"in a circle: {', '.join(circle)}"


def _in_circles() -> list[str]:
    """Return the modules that import themselves through others."""
    modules = {".".join(Path(relative(path)).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
    graph = {name: _imported(path, set(modules)) - {name} for name, path in modules.items()}
    while free := [name for name, needed in graph.items() if not needed & set(graph)]:
        for name in free:
            del graph[name]
    return sorted(name for name in graph if name in _reached(name, graph))


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    """The modules that `start` imports, and those that these import, of `graph`."""
    found: set[str] = set()
    open_ = [start]
    while open_:
        new = graph[open_.pop()] & graph.keys() - found
        found |= new
        open_ += new
    return found


def _imported(path: Path, modules: set[str]) -> set[str]:
    """Return those of `modules` that a module imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = {f"{node.module}.{each.name}" for each in node.names}
            found |= parts if parts <= modules else {node.module, *parts}
    return found & modules


ENGINE = ROOT / "cepbook" / "engine"


def test_only_the_border_makes_deltas() -> None:
    """Inside the engine changes travel as what entered and what left; a Delta is made for a listener."""
    making = {
        relative(path)
        for path in ENGINE.rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Delta"
    }
    assert making == {"cepbook/engine/delivery/row_layout.py"}


def test_rows_are_made_in_few_places() -> None:
    """A dict of names and values: for user code and readers, of matches, of derived and of stored events."""
    making = {
        str(path.relative_to(ENGINE))
        for path in ENGINE.rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and node.args
        if isinstance(node.args[0], ast.Call) and ast.unparse(node.args[0].func) == "zip"
    }
    assert making == {
        "delivery/row_layout.py",  # for user code, and events that somebody takes one by one
        "patterns/matcher.py",  # matches
        "windows/derived_value.py",  # values of what is in a window
        "cycles/stage.py",  # and in a stage
        "statements/cycle_member.py",  # rows of stores that are all replaced
        "deploy/fire_and_forget.py",
    }


def test_the_writer_asks_no_window_which_it_is() -> None:
    """Modules of windows are found by the names of their rows. The rest of the engine names two: ``groupwin``, of which
    the windows behind it are parts, and ``newest``, which hides what the windows before it hold.
    """
    folder = "cepbook.engine.windows"
    named = {
        found.removeprefix(f"{folder}.")
        for path in ENGINE.rglob("*.py")
        if not path.is_relative_to(ENGINE / "windows")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(folder)
        for found in (node.module, *(f"{node.module}.{each.name}" for each in node.names))
    }
    assert named & set(WINDOWS) == {"groupwin", "newest"}


def test_the_handler_in_architecture_is_the_generated_one() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    module, printed = blocks(text, "")[1], blocks(text, "python")[0]
    workbench = Workbench()
    workbench.run(module)
    generated = workbench.explain("late", "python")
    assert generated[generated.index("def on_event") :].startswith(printed)
