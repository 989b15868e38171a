"""Faults at any line of an operation: the workbench is as before or as after, or it is marked and says what to do.

A fault comes at the k-th line of cepbook that an operation executes: an exception, a KeyboardInterrupt (as of a second
Ctrl-C), or a first Ctrl-C. Afterwards the workbench shows the old or the new state in all that is seen of it and in
what follows. Else it is marked as broken: every further call raises and names `rewind` and `reset`. A first Ctrl-C
never breaks it. An exception in a statement's code is reported as the error of the statement.

By default each operation has one fault of each kind. `CEPBOOK_FAULTS=20000` injects that many faults,
`CEPBOOK_FAULTS=all` one of each kind at every line; `CEPBOOK_SHARD=3/100` injects each hundredth of them.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import cepbook
from cepbook import Workbench
from cepbook.errors import CepbookError, UsageError
from cepbook.magics import COMMANDS
from cepbook.magics.epl.command import run_cell, run_line
from cepbook.magics.shell.host import NotebookHost
from tests.engine.dispatch.test_faults import Injector, in_a_copy, traced
from tests.engine.invariants import invariant_violations
from tests.magics.conftest import new_shell
from tests.random_cases import SHARD, part

pytestmark = [
    pytest.mark.histories,
    pytest.mark.filterwarnings("ignore::cepbook.errors.MissingRowsWarning"),  # the check reads statements without rows
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each fault is injected into a copy of the process"),
]

COUNT = os.environ.get("CEPBOOK_FAULTS", "108")
SEED = int(os.environ.get("CEPBOOK_SEED", "8"))
PACKAGE = str(Path(cepbook.__file__).parent)
LOAD_CONST = dis.opmap["LOAD_CONST"]
LONGEST = 300  # seconds for one fault
KINDS = ("exception", "interrupt", "ctrl-c")
SCHEMA = "create schema E(k string, x int); create variable int least = 0"
MODULE = """
create schema F(x int);
create context Keyed partition by k from E;
create window W#keepall as E;
insert into W select * from E(x > least);
@name('sum') select sum(x) as s from W;
@name('keyed') context Keyed select k, count(*) as n from E#time(10 sec);
@name('derive') insert into D select k, x from E;
"""
READER = "@name('reader') select k, max(x) as m from D group by k"
FRAME = pd.DataFrame({"k": ["a", "b", "a"], "x": [7, 8, 9], "at": [2000, 3000, 4000]})
ITEMS: Sequence[dict[str, Any]] = FRAME.to_dict("records")


def ready() -> Workbench:
    """A workbench with state, a listener and a registered function."""
    cep = Workbench()
    cep.register_function("twice", _twice)
    cep.run(SCHEMA, cell="schema")
    cep.run(MODULE, cell="module")
    cep.run(READER, cell="reader")
    cep.on("reader", lambda delta: None)
    for number in range(3):
        cep.send("E", k="ab"[number % 2], x=number)
    cep.advance(by="1 sec")
    cep.set("least", 1)
    return cep


def _twice(x: int) -> int:
    return x * 2


def _thrice(x: int) -> int:
    return x * 3


async def _items(count: int) -> AsyncIterator[dict[str, Any]]:
    for item in ITEMS[:count]:
        yield item


def live(cep: Workbench, count: int) -> None:
    async def take() -> None:
        source = cep.live({"E": _items(count)}, time="at")
        await source
        if not source.rejections.empty:
            raise CepbookError(f"rejected: {source.rejections}")

    asyncio.run(take())


def line(text: str) -> Callable[[Workbench, Path], object]:
    return lambda cep, path: run_line(_host(cep), text.format(path=path))


def _host(cep: Workbench) -> NotebookHost:
    shell: Any = InteractiveShell._instance
    shell.user_ns["cep"] = cep
    return NotebookHost(shell, COMMANDS)


Operation = Callable[[Workbench, Path], object]
OPERATIONS: Mapping[str, Operation] = {
    "send": lambda cep, path: cep.send("E", k="a", x=5),
    "send together": lambda cep, path: cep.send_together(("E", {"k": "a", "x": 5}), ("F", {"x": 6})),
    "advance": lambda cep, path: cep.advance(by="20 sec"),
    "set": lambda cep, path: cep.set("least", 5),
    "rewind": lambda cep, path: cep.rewind(),
    "reset": lambda cep, path: cep.reset(),
    "deploy": lambda cep, path: cep.run("@name('new') select x from E; create schema G(y int)", cell="new"),
    "redeploy a schema": lambda cep, path: cep.run(SCHEMA.replace("x int", "x int, y int"), cell="schema"),
    "redeploy a statement": lambda cep, path: cep.run(READER.replace("max", "min"), cell="reader"),
    "drop": lambda cep, path: cep.drop("reader"),
    "drop a part": lambda cep, path: cep.drop("keyed"),
    "drop with dependants": lambda cep, path: cep.drop("E", cascade=True),
    "end a partition": lambda cep, path: cep.end_partition("Keyed", 0),
    "insert by a query": lambda cep, path: cep.query("insert into W select 'c' as k, 9 as x"),
    "update by a query": lambda cep, path: cep.query("update W set x = 7 where k = 'a'"),
    "delete by a query": lambda cep, path: cep.query("delete from W where x = 2"),
    "replace rows": lambda cep, path: cep.replace_rows("W", [{"k": "z", "x": 5}]),
    "define": lambda cep, path: cep.define("H", pd.DataFrame({"a": [1], "b": ["x"]})),
    "define anew": lambda cep, path: cep.define("P", {"a": "int", "b": "long"}),
    "register a function": lambda cep, path: cep.register_function("twice", _thrice),
    "save": lambda cep, path: cep.save(path / "saved", replace=True),
    "load": lambda cep, path: cep.load(path / "other"),
    "read rows": lambda cep, path: [cep.changes(name) for name in cep.runtime.statements],
    "feed capacity": lambda cep, path: setattr(cep, "feed_capacity", 2),
    "replay": lambda cep, path: cep.replay(FRAME, "E", time="at").run(),
    "replay of items": lambda cep, path: cep.replay(iter(ITEMS), "E", time="at").run(),
    "live": lambda cep, path: live(cep, len(ITEMS)),
    "%%epl": lambda cep, path: run_cell(_host(cep), "--name new", "@name('new') select x from E"),
    "%epl insert": line("insert into W select 'c' as k, 9 as x"),
    "%epl set": line("set least=5"),
    "%epl drop": line("drop E --cascade"),
    "%epl end": line("end Keyed 0"),
    "%epl rewind": line("rewind"),
    "%epl reset": line("reset"),
    "%epl load": line("load {path}/other"),
    "%epl capacity": line("capacity 2"),
}
# What replays and live sources may have done when they stop: all events until then, and nothing of the next one.
PREFIXES: Mapping[str, Callable[[Workbench, int], object]] = {
    "replay": lambda cep, count: cep.replay(FRAME[:count], "E", time="at").run(),
    "replay of items": lambda cep, count: cep.replay(iter(ITEMS[:count]), "E", time="at").run(),
    "live": live,
}


def attempt(work: Callable[[], object]) -> str:
    """The result of a call as text, also if it is an error of cepbook."""
    try:
        return str(work())
    except CepbookError as error:
        return str(error)


def saved(path: Path) -> str:
    """What a file is good for, where it is not the file of the beginning."""
    if not path.exists():
        return "no file"
    if path.read_bytes() == path.with_suffix(".before").read_bytes():
        return "None"
    return attempt(lambda: Workbench().load(path))


def aspects(cep: Workbench, path: Path) -> str:
    """All that can be seen of the workbench, and what follows from further calls, as text."""
    if cep.replaying is not None:
        cep.replaying.stop()
    catalog = cep.runtime.catalog
    aspects: list[Any] = [
        sorted(cep.runtime.deployments),
        sorted(cep.runtime.statements),
        [sorted(names) for names in (catalog.event_types, catalog.contexts, catalog.variables, catalog.stores)],
        sorted((key, run.cell, sorted(run.names)) for key, run in cep._cells.items()),
        [cep.runtime.now, cep.feed_capacity],
        [cep.past().events, len(cep.runtime.errors)],
        saved(path / "saved"),
    ]

    def rows() -> list[str]:
        names = sorted(cep.runtime.statements)
        return [attempt(lambda: (cep.feed(name).snapshot(), cep.iterate(name))) for name in names]  # noqa: B023

    aspects.append(rows())
    aspects.append(attempt(lambda: cep.run("@name('call') select twice(x) as y from E").statements[0].name))
    aspects.append(attempt(lambda: cep.send("E", k="a", x=4)))
    aspects.append(attempt(lambda: cep.advance(by="20 sec")))
    aspects.append(attempt(lambda: cep.query("select * from W").to_json(date_format="iso")))
    aspects.append(rows())
    aspects.append(attempt(lambda: [cep.rewind(), cep.send("E", k="a", x=4), rows()]))
    return json.dumps(aspects, default=str)


class OperationInjector(Injector):
    """Raises a fault of a kind at the `at`-th line of cepbook; counts lines."""

    def __init__(self, at: int | None, kind: str = "") -> None:
        super().__init__(at, ZeroDivisionError("injected") if kind == "exception" else KeyboardInterrupt())
        self.kind = kind

    def is_traced(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return name.startswith((PACKAGE, "<")) and not name.startswith("<frozen")

    def is_unguarded(self, frame: FrameType) -> bool:
        """True also at the end of `with` before `__exit__`, which begins with ``None, None, None``."""
        code, at = frame.f_code.co_code, frame.f_lasti
        return super().is_unguarded(frame) or (code[at] == LOAD_CONST and code[at : at + 2] * 3 == code[at : at + 6])

    def fail(self, failure: BaseException) -> None:
        if self.kind == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        else:
            super().fail(failure)


def verdict(cep: Workbench, path: Path, name: str, injector: OperationInjector, states: Mapping[str, str]) -> str:
    """What became of a fault: old, new, broken, reported as the failure of a statement, or what is wrong."""
    signal.alarm(LONGEST)
    errors = len(cep.runtime.errors)
    raised = traced(injector, lambda: OPERATIONS[name](cep, path))
    where = f"{injector.kind} at {injector.where}"
    if cep.runtime.turn.broken:
        return f"broken by one Ctrl-C: {where}" if injector.kind == "ctrl-c" else recovery(cep, where)
    reported = len(cep.runtime.errors) > errors or cep.runtime.turn.raised_at_end(raised) or "rejected" in str(raised)
    if injector.kind == "exception" and reported:
        return "reported" if not (violations := invariant_violations(cep.runtime)) else f"{violations}: {where}"
    try:
        after = aspects(cep, path)
    except Exception as failure:  # noqa: BLE001
        return f"half: {where}, then {''.join(traceback.format_exception(failure)[-3:])}"
    state = next((state for state, text in states.items() if text == after), None)
    signal.alarm(0)
    return state or f"half: {where}, {raised!r}, {difference(after, states)}"


def difference(after: str, states: Mapping[str, str]) -> str:
    """The first aspect that no state has."""
    known = [json.loads(text) for text in states.values()]
    for number, aspect in enumerate(json.loads(after)):
        if all(aspect != state[number] for state in known):
            return f"aspect {number} is {str(aspect)[:300]}"
    return "old and new together"


def recovery(cep: Workbench, where: str) -> str:
    """Broken if a broken workbench says what to do and can be used after that, else what is wrong."""
    try:
        cep.send("E", k="a", x=1)
    except UsageError as error:
        if "interrupted in the middle" not in str(error) or "rewind" not in str(error):
            return f"broken, but send says {error}: {where}"
        for start_again in (cep.rewind, cep.reset):
            start_again()
            cep.run("create schema Anew(x int); @name('anew') select x from Anew", cell="anew")
            cep.send("Anew", x=1)
            if len(cep.changes("anew")) != 1:
                return f"not usable after {start_again.__name__}: {where}"
        return "broken"
    except BaseException as error:  # noqa: BLE001
        return f"broken, but send raises {error!r}: {where}"
    return f"broken, but send does not say so: {where}"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workbench, Path, str]]:
    """The workbench before all operations, the folder of its files, and what is seen of it.

    With a shell for magics, the usual handler of Ctrl-C, and no collection of what other tests left.
    """
    path = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as monkeypatch:
        new_shell(monkeypatch)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.collect()
        gc.disable()
        other = Workbench()
        other.run(
            "create schema E(k string, x int); @name('loaded') select sum(x) as s from E#length(2)", cell="loaded"
        )
        other.send("E", k="b", x=1)
        other.save(path / "other")
        cep = at_first()
        cep.save(path / "saved")
        shutil.copy(path / "saved", path / "saved.before")
        yield cep, path, in_a_copy(lambda: aspects(cep, path))
        gc.enable()
        signal.signal(signal.SIGINT, handler)


def at_first() -> Workbench:
    cep = ready()
    cep.define("P", {"a": "int"})
    return cep


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_at_any_line_of_an_operation(name: str, before: tuple[Workbench, Path, str], tmp_path: Path) -> None:
    operation, (cep, path, old) = OPERATIONS[name], before
    shutil.copytree(path, tmp_path, dirs_exist_ok=True)
    operation(at_first(), path)  # what is imported and cached at first use
    path = tmp_path  # a fault in a copy may leave other files

    def count() -> str:
        injector = OperationInjector(None)
        raised = traced(injector, lambda: operation(cep, path))
        assert raised is None, repr(raised)
        return str(injector.lines)

    def state_after(work: Callable[[], object]) -> str:
        work()
        return aspects(cep, path)

    lines = int(in_a_copy(count))
    states = {"old": old}
    if name in PREFIXES:
        for number in range(len(ITEMS)):
            states[f"{number} events"] = in_a_copy(lambda: state_after(lambda: PREFIXES[name](cep, number)))  # noqa: B023
    states["new"] = in_a_copy(lambda: state_after(lambda: operation(cep, tmp_path)))
    failed = [text for text in states.values() if text.startswith("the check failed")]
    assert not failed, failed
    points = [(at, kind) for at in range(1, lines + 1) for kind in KINDS][SHARD]
    if COUNT != "all":
        draw = random.Random(f"{SEED} {name}")
        points = part(
            (draw.randint(1, lines), kind) for _ in range(-(-int(COUNT) // len(OPERATIONS) // 3)) for kind in KINDS
        )
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    for at, kind in points:
        injector = OperationInjector(at, kind)
        result = in_a_copy(lambda: verdict(cep, path, name, injector, states))  # noqa: B023
        expected = result in ("broken", "reported") or result in states
        verdicts[result if expected else "wrong"] += 1
        if not expected:
            wrong.append(f"line {at} of {lines}: {result}")
    print(f"{name}: {lines} lines, {len(points)} faults: {dict(verdicts)}", file=sys.stderr)
    assert not wrong, f"{len(wrong)} of {len(points)}\n" + "\n".join(wrong[:40])
