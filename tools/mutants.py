"""Mutation testing: change one place of the engine, run the tests that reach it, and see whether one of them fails.

`python tools/mutants.py [--mutants 1000] [--seed 1] [--minutes 60] [--processes 1] [--again | --resume]`

The mutants are those of mutmut (an operator swapped, a constant changed, an argument replaced by None or left out, an
assignment of None, ...) in the bodies of all functions of `HEART`. A seeded draw takes some of them, so that two runs
on one commit try the same ones.

A mutant may not cost a test suite. All tests of `make quick` are collected in one process. A fork of it runs them once
under coverage, and records which test runs which line; `build/mutants` keeps the record for the next run. Then each
mutant gets a fork of its own, in which the code of the mutated function is replaced, and which runs the tests that
reach the mutated line until one fails. Code generators are reached by the tests that deploy statements. A test that
needs ten times as much of the processor as before, and ten seconds more, counts as failed: the mutant hangs.

`build/mutants/results.jsonl` has a line per mutant, and grows during the run. `--resume` tries those of the draw that
it lacks, `--again` the survivors in it once more, for example after a test was added.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import coverage
import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.check import QUICK, isolated  # noqa: E402

ENGINE = ROOT / "cepbook" / "engine"
HEART = [
    *(ENGINE / room for room in ("windows", "aggregates", "patterns", "recognize", "contexts", "relations", "output")),
    ENGINE / "snapshot",
    ROOT / "cepbook" / "session" / "replay",
]
BUILD = ROOT / "build" / "mutants"
# A test hangs that takes so many times as long as without a mutant, and so many seconds of the processor more.
SLOWER, GRACE = 10, 10.0
ASLEEP = 120.0  # seconds without a word
KILLED = ("killed", "timed out", "crashed")
CO_OPTIMIZED = 0x1
MEMORY = 3 << 30
T = TypeVar("T")
fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Mutant:
    """The `number`th mutant of a file, in the order of its text."""

    file: str
    number: int
    line: int
    before: str
    after: str


class Places(cst.CSTVisitor):
    """Collects (line, node, mutated node) in the bodies of functions. What only type checkers read has no mutants, and
    neither have decorators and defaults, which run at import.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.mutations: list[tuple[int, cst.CSTNode, cst.CSTNode]] = []
        self._depth = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Annotation, cst.Decorator, cst.Parameters)):
            return False
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "cast":
            return False
        self._depth += isinstance(node, cst.FunctionDef)
        if self._depth:
            line = self.get_metadata(PositionProvider, node).start.line if has_place(node) else 0
            for kind, operator in mutation_operators:
                if isinstance(node, kind):
                    self.mutations.extend((line, node, mutated) for mutated in operator(node) if line)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._depth -= isinstance(original_node, cst.FunctionDef)


def has_place(node: cst.CSTNode) -> bool:
    return not isinstance(node, (cst.BaseParenthesizableWhitespace, cst.MaybeSentinel))


@cache
def places(file: Path) -> tuple[cst.Module, list[tuple[int, cst.CSTNode, cst.CSTNode]]]:
    """Return the syntax tree of a module, and (line, node, mutated node) for each of its mutants."""
    wrapper, collected = MetadataWrapper(cst.parse_module(file.read_text("utf-8")), unsafe_skip_copy=True), Places()
    wrapper.visit(collected)
    return wrapper.module, collected.mutations


def functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module and of all that is in it, in the order of the text."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from functions(constant)


def changed(mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Return the code of the outermost function that a mutant changes, and of the functions inside, as (before, after);
    nothing if it compiles to the same code.
    """
    file = ROOT / mutant.file
    module, mutations = places(file)
    _, node, mutated = mutations[mutant.number]
    texts = module.code, module.deep_replace(node, mutated).code
    before, after = (functions(compile(text, str(file), "exec")) for text in texts)
    for old, new in zip(before, after, strict=False):
        if old != new and old.co_flags & CO_OPTIMIZED:  # functions have it, modules and classes have not
            return list(zip(functions(old), functions(new), strict=False))
    return []


def draw(files: list[Path], number: int, seed: int) -> list[Mutant]:
    """Return `number` mutants of these files; the same ones for the same seed."""
    population = [(file, n) for file in files for n in range(len(places(file)[1]))]
    drawn = random.Random(seed).sample(population, min(number, len(population)))
    print(f"{len(drawn)} of {len(population)} mutants in {len(files)} files", flush=True)
    mutants = []
    for file, n in drawn:
        module, mutations = places(file)
        line, *nodes = mutations[n]
        mutants.append(Mutant(file.relative_to(ROOT).as_posix(), n, line, *map(module.code_for_node, nodes)))
    return mutants


def live_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return all functions of the project in this process, by the place of their code."""
    gc.unfreeze()
    index: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for item in gc.get_objects():
        if isinstance(item, FunctionType) and item.__code__.co_filename.startswith(str(ROOT)):
            index[place(item.__code__)].append(item)
    gc.freeze()
    return index


def place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class Run:
    """A pytest plugin that runs mutants in place of the tests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sender: Connection | None = None  # of a fork that runs tests
        self.recording: coverage.Coverage | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        BUILD.mkdir(parents=True, exist_ok=True)
        self.record()
        self.index = live_functions()
        results = BUILD / "results.jsonl"
        files = sorted(file for folder in HEART for file in folder.rglob("*.py"))
        mutants = draw(files, self.options.mutants, self.options.seed)
        known = {(r["file"], r["number"]): r["outcome"] for r in read(results)}
        if self.options.again:
            mutants = [m for m in mutants if known.get((m.file, m.number)) in ("survived", "not covered")]
            results = BUILD / "again.jsonl"
        elif self.options.resume:
            mutants = [m for m in mutants if (m.file, m.number) not in known]
        if not self.options.resume:
            results.write_text("")
        deadline = time.monotonic() + 60 * self.options.minutes
        self.divide(mutants, lambda part, number: self.try_mutants(part, results, deadline))
        summarize(results)
        return True

    def divide(self, things: list[T], work: Callable[[list[T], int], None]) -> None:
        """Do the work in as many forks as there are to be processes."""
        count = self.options.processes
        workers = [fork.Process(target=work, args=(things[n::count], n)) for n in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    # Which test reaches what.

    def record(self) -> None:
        """Run the tests that the record does not have, under coverage. Those that fail take no further part."""
        digest = hashlib.sha256()
        for file in sorted((ROOT / "cepbook").rglob("*.py")):
            digest.update(file.read_bytes())
        stem = f"reached-{digest.hexdigest()[:12]}"
        self.seconds: dict[str, float] = {}
        self.load_record(stem)
        missing = [item for name, item in self.items.items() if name not in self.seconds]
        if missing:
            print(f"recording what {len(missing)} tests reach", flush=True)
            files = defaultdict(list)  # the tests of a module share fixtures
            for item in missing:
                files[item.path].append(item)
            self.divide(list(files.values()), lambda parts, n: self.record_some(parts, f"{stem}-{time.time_ns()}"))
            self.load_record(stem)
        self.reached: dict[str, dict[int, list[str]]] = {}

    def load_record(self, stem: str) -> None:
        self.records = []
        for file in BUILD.glob(f"{stem}*.json"):
            self.seconds |= json.loads(file.read_text())
            self.records.append(file.with_suffix(".coverage"))

    def record_some(self, parts: list[list[pytest.Item]], name: str) -> None:
        seconds: dict[str, float] = defaultdict(float)
        arguments = [item for part in parts for item in part], BUILD / f"{name}.coverage"
        for event, test, lasted in self.messages(self.run_recorded, arguments):
            if event == "failed":
                print(f"fails without a mutant: {test}", flush=True)
                seconds[test] = math.nan
            elif event == "passed":
                seconds[test] += lasted
        (BUILD / f"{name}.json").write_text(json.dumps(seconds))

    def run_recorded(self, items: list[pytest.Item], file: Path) -> None:
        include = [f"{folder}/*" for folder in HEART]
        self.recording = coverage.Coverage(data_file=str(file), include=include, config_file=False)
        self.recording.start()
        self.run_items(items, math.inf)
        self.recording.stop()
        self.recording.save()

    def tests_of(self, mutant: Mutant, code: CodeType) -> list[str]:
        """Return the tests that run a mutated line, by and large the quick ones and those of its folder first."""
        file = str(ROOT / mutant.file)
        if file not in self.reached:
            self.reached[file] = defaultdict(list)
            for record in self.records:
                data = coverage.CoverageData(str(record))
                data.read()  # in this process: after a fork the data would be erased
                for line, names in data.contexts_by_lineno(file).items():
                    self.reached[file][line] += names
        lines = self.reached[file]
        # The lines of an expression that spans several are those of its parts that do something.
        starts = {line for part in functions(code) for _, _, line in part.co_lines() if line and line <= mutant.line}
        chance = random.Random(mutant.number)
        folder = mutant.file.rpartition("/")[0].replace("cepbook", "tests", 1)
        cost = {name: self.seconds.get(name, math.nan) * (0.1 if name.startswith(folder) else 1) for name in self.items}
        names = (n for n in lines.get(max(starts), ()) if not math.isnan(cost.get(n, math.nan)))
        return sorted(names, key=lambda name: chance.random() * cost[name])

    # One mutant after the other.

    def try_mutants(self, mutants: list[Mutant], results: Path, deadline: float) -> None:
        for mutant in mutants:
            if time.monotonic() > deadline:
                return
            start = time.monotonic()
            codes = changed(mutant)
            names = self.tests_of(mutant, codes[0][0]) if codes else []
            outcome, test, ran = self.try_mutant(codes, names) if names else ("not covered", "", 0)
            line = asdict(mutant) | {"outcome": outcome if codes else "same code", "by": test, "ran": ran}
            line |= {"of": len(names), "seconds": round(time.monotonic() - start, 2)}
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def try_mutant(self, codes: list[tuple[CodeType, CodeType]], names: list[str]) -> tuple[str, str, int]:
        """Return what becomes of a mutant, the test that killed it, and the number of tests that ran."""
        ran, test = 0, ""
        for event, words, _ in self.messages(self.run_mutated, (codes, names)):
            if event == "start":
                ran, test = ran + 1, words
            elif event == "failed":
                return "killed", test, ran
            elif event in ("survived", "cannot be applied"):
                return event, "", ran
            elif event in ("timed out", "crashed"):
                return event, test, ran
        raise AssertionError("a fork has ended without a word")

    def run_mutated(self, codes: list[tuple[CodeType, CodeType]], names: list[str]) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        assert self.sender is not None
        try:
            replaced = [(function, new) for old, new in codes for function in self.index.get(place(old), ())]
            for function, new in replaced:
                function.__code__ = new
        except ValueError:  # the mutant has other free variables
            replaced = []
        if replaced:
            self.run_items([self.items[name] for name in names], self.options.seconds)
        self.sender.send(("survived" if replaced else "cannot be applied", "", 0.0))

    # Tests in a fork.

    def messages(self, work: Callable[..., None], arguments: tuple[Any, ...]) -> Iterator[tuple[str, str, float]]:
        """Do the work in a fork, yield what it sends, and "timed out" or "crashed" if it does not come to its end."""
        receiver, self.sender = fork.Pipe(duplex=False)
        folder = tempfile.mkdtemp(prefix="cepbook-")
        child = fork.Process(target=self.apart, args=(work, arguments, folder))
        child.start()
        self.sender.close()
        test = ""
        try:
            while receiver.poll(ASLEEP):
                event, words, seconds = receiver.recv()
                test = words if event == "start" else test
                yield event, words, seconds
            yield "timed out", test, 0.0
        except EOFError:
            child.join()
            if child.exitcode:
                yield "timed out" if child.exitcode == -signal.SIGXCPU else "crashed", test, 0.0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
            receiver.close()
            shutil.rmtree(folder, ignore_errors=True)

    def apart(self, work: Callable[..., None], arguments: tuple[Any, ...], folder: str) -> None:
        os.setsid()
        config = next(iter(self.items.values())).config
        config.pluginmanager.unregister(name="terminalreporter")
        config._tmp_path_factory._basetemp = Path(folder)  # type: ignore[attr-defined]
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        work(*arguments)

    def run_items(self, items: list[pytest.Item], seconds: float) -> None:
        assert self.sender is not None
        until = time.monotonic() + seconds
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.monotonic() > until:
                return
            if not self.recording:
                used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
                limit = math.ceil(used + GRACE + SLOWER * self.seconds[item.nodeid])
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            self.sender.send(("start", item.nodeid, 0.0))
            if self.recording:
                self.recording.switch_context(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.sender:
            self.sender.send(("failed" if report.failed else "passed", report.nodeid, report.duration))


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def summarize(results: Path) -> None:
    """Print the survivors and the figures."""
    lines = [r for r in read(results) if r["outcome"] not in ("same code", "cannot be applied")]
    for r in sorted(lines, key=lambda r: (r["file"], r["line"])):
        if r["outcome"] not in KILLED:
            print("{file}:{line}: {outcome}, {ran} of {of} tests\n  {before}\n  {after}".format(**r))
    killed = sum(r["outcome"] in KILLED for r in lines)
    print(dict(Counter(r["outcome"] for r in lines)))
    print(f"{killed} of {len(lines)} mutants killed ({100 * killed / max(1, len(lines)):.1f} %)")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=60, help="at most so many for the tests of one mutant")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="the survivors of the run before")
    parser.add_argument("--resume", action="store_true", help="those that the run before did not come to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(isolated(home) | {"CEPBOOK_PART": "0/1"})
        os.chdir(ROOT)
        return int(pytest.main([*QUICK["quick"][1:], "-p", "no:cacheprovider"], plugins=[Run(options)]))


if __name__ == "__main__":
    sys.exit(main())
