"""Faults at any line of a round: an event is in for everybody or for nobody, or somebody is told.

One fault is injected at the k-th line that a stimulus executes, in the engine, in generated code, in a listener, a sink
or a registered function. Afterwards the runtime has seen the stimulus, or has not, or is broken and says so; where the
fault is an exception of user code, an error was told. `CEPBOOK_FAULTS=1000` injects that many instead of a sample.
"""

from __future__ import annotations

import dis
import gc
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cepbook.engine
from cepbook.engine.delivery.delta import Delta
from cepbook.engine.dispatch.turn import Turn
from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from tests.engine.invariants import invariant_violations
from tests.random_cases import PARTS, part

pytestmark = [
    pytest.mark.histories,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each fault is injected into a copy of the process"),
]

COUNT = int(os.environ.get("CEPBOOK_FAULTS", "60"))
SEED = int(os.environ.get("CEPBOOK_SEED", "8"))
ENGINE = str(Path(cepbook.engine.__file__).parent)

# What slices run as well (`test_slice_faults`)
SHARED = """
create schema E(k string, x int);
@name('variable') create variable int seen = 0;
create context Keyed partition by k from E;
create context Spans initiated by E(x > 2) as e terminated after 3 sec;
create context Hashed coalesce by hash_code(k) from E granularity 2;
create context Kinds group x < 3 as low, group x > 1 as high from E;
@name('plain') select k, twice(x) as y from E(x > 0);
@name('derive') insert into D select k, x from E;
@name('derived') select k, sum(x) as s from D group by k;
@name('window') select irstream k, x from E#time(2 sec);
@name('batch') select sum(x) as s from E#time_batch(2 sec);
@name('snapshot') select k, count(*) as n from E group by k output snapshot every 1 sec;
@name('keyed') context Keyed select k, sum(x) as s from E#time(2 sec);
@name('leaving') context Keyed select irstream k, x from E#time(2 sec);
@name('hashed') context Hashed select irstream k, x from E#time(1 sec);
@name('kinds') context Kinds select context.label as l, count(*) as n from E#time(2 sec);
@name('pattern') select a.k as k from pattern[every a=E -> timer:interval(1 sec)];
@name('set') on E(x = 2) set seen = seen + 1;
@name('ticks') select seen from pattern[every timer:interval(1 sec)];
"""
MODULE = f"""{SHARED}
create schema F(x int);
@name('spans') context Spans select context.e.k as k, count(*) as n from E output every 1 sec and when terminated;
"""
Stimulus = Callable[[Runtime], None]
ADDED = "@name('added') select k from E#length(2); @name('more') context Keyed select count(*) as n from E"


def send(k: str, x: int) -> Stimulus:
    return lambda runtime: runtime.send("E", {"k": k, "x": x})


def advance(t: int, *, stepping: bool = False) -> Stimulus:
    return lambda runtime: runtime.advance(t, stepping=stepping)


def deploy(epl: str) -> Stimulus:
    def work(runtime: Runtime) -> None:
        if "added" in runtime.deployments:
            runtime.redeploy("added", epl)
        else:
            runtime.deploy(epl, deployment_id="added")

    return work


def drop(runtime: Runtime) -> None:
    if "added" in runtime.deployments:
        runtime.undeploy("added")


STIMULI: list[Stimulus] = [
    send("a", 1),
    advance(500),
    send("b", 3),
    advance(1200),
    deploy(ADDED),
    send("a", 2),
    lambda runtime: runtime.send("E", {"k": "b", "x": 4}, 1900),
    deploy(ADDED.replace("length(2)", "length(1)")),
    advance(2600),
    lambda runtime: runtime.set_variable("seen", 10),
    send("c", 2),
    drop,
    advance(4000, stepping=True),
    send("a", 5),
    advance(9000),
]
STEPPING = 12
NOP = dis.opmap["NOP"]


class Log:
    """What the statements delivered, by statement: those of one run are compared with those of another."""

    def __init__(self) -> None:
        self.told: dict[str, list[Any]] = {}

    def listen(self, runtime: Runtime) -> None:
        for statement in runtime.statements.values():
            statement.add_listener(lambda delta, name=statement.name: self.hear(name, delta))

    def hear(self, name: str, delta: Delta) -> None:
        self.told.setdefault(name, []).append([delta.time, delta.insert, delta.remove])


def twice(x: int) -> int:
    doubled = x * 2
    return doubled


def ready() -> tuple[Runtime, Log]:
    runtime, log = Runtime(functions={"twice": twice}), Log()
    runtime.deploy(MODULE)
    log.listen(runtime)
    return runtime, log


def run_on(runtime: Runtime, log: Log, stimuli: Sequence[Stimulus]) -> str:
    """All that can be seen of the runtime from here on, as text."""
    for stimulus in stimuli:
        stimulus(runtime)
    rows = {name: runtime.iterate(name) for name in runtime.statements}
    return json.dumps([log.told, rows, list(runtime.deployments), runtime.now], default=str)


class Injector:
    """Raises `failure` at the `at`-th line; counts lines."""

    def __init__(self, at: int | None, failure: BaseException | None) -> None:
        self.lines = 0
        self.at = at
        self.failure = failure
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        return self.line if self.is_traced(frame) else None

    def line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.at and self.is_unguarded(frame):
                self.at += 1
            elif self.lines == self.at and self.failure is not None:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
                self.fail(self.failure)
        return self.line

    def is_traced(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith((ENGINE, "<")) or frame.f_code in _USERS

    def is_unguarded(self, frame: FrameType) -> bool:
        """True at `try` in a `try`: CPython covers it by no handler, and no signal is handled at it."""
        return frame.f_code.co_code[frame.f_lasti] == NOP

    def fail(self, failure: BaseException) -> None:
        raise failure


_USERS = (twice.__code__, Log.hear.__code__)


def traced(injector: Injector, work: Callable[[], object]) -> BaseException | None:
    before = sys.gettrace()
    sys.settrace(injector)
    try:
        work()
    except BaseException as failure:  # noqa: BLE001
        return failure
    finally:
        sys.settrace(before)
    return None


def in_a_copy(work: Callable[[], str]) -> str:
    """What `work` gives in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                found = work()
            except BaseException as failure:  # noqa: BLE001
                found = f"the check failed: {type(failure).__name__}: {failure}"
            with os.fdopen(writing, "w") as pipe:
                pipe.write(found)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


def verdict(runtime: Runtime, log: Log, place: int, injector: Injector) -> str:
    """What became of a fault: ok, or what is wrong."""
    errors = len(runtime.errors)
    raised = traced(injector, lambda: STIMULI[place](runtime))
    what = f"{type(injector.failure).__name__} at {injector.where}, stimulus {place}"
    if runtime.turn.broken:
        return "broken"
    told = raised is not None or len(runtime.errors) > errors
    if told and isinstance(injector.failure, Exception):
        if not isinstance(raised, StatementError | type(injector.failure)):
            return f"{what}: {raised!r}"
        found = invariant_violations(runtime)
        return f"{what}: {found}" if found else "told"
    after = place if place == STEPPING else place + 1  # what stops between two steps goes on there
    seen = in_a_copy(lambda: run_on(runtime, log, STIMULI[after:]))
    whole = {expected(place, True), expected(place, False)}
    return "whole" if seen in whole else f"{'half' if told else 'silent'}: {what}"


_EXPECTED: dict[tuple[int, bool], str] = {}


def expected(place: int, seen: bool) -> str:
    """What follows from all stimuli, with or without that at `place`."""
    if (place, seen) not in _EXPECTED:
        stimuli = STIMULI if seen else [*STIMULI[:place], *STIMULI[place + 1 :]]
        _EXPECTED[place, seen] = run_on(*ready(), stimuli)
    return _EXPECTED[place, seen]


FAILURES: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ZeroDivisionError("injected"),
    "ctrl-c": KeyboardInterrupt,
    "exit": lambda: SystemExit(1),
}


@pytest.fixture(autouse=True)
def no_garbage_of_others() -> Iterator[None]:
    """Lines that run while what other tests left is collected are lines of no stimulus, and come but once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("kind", FAILURES)
def test_a_fault_at_any_line_leaves_a_round_whole_or_is_told(kind: str) -> None:
    random_ = random.Random(SEED)
    runtime, log = ready()
    found: dict[str, int] = {}
    wrong: list[str] = []
    each = -(-COUNT // (len(FAILURES) * len(STIMULI)))
    for place, stimulus in enumerate(STIMULI):
        expected(place, True), expected(place, False)  # first: how many calls were made is to be the same in all copies
        lines = int(in_a_copy(lambda: _lines(runtime, stimulus)))  # noqa: B023 - called at once
        for at in sorted(part(random_.sample(range(1, lines + 1), min(each, lines)))):
            injector = Injector(at, FAILURES[kind]())
            result = in_a_copy(lambda: verdict(runtime, log, place, injector))  # noqa: B023
            found[result] = found.get(result, 0) + 1
            if result not in ("broken", "told", "whole"):
                wrong.append(f"line {at} of {lines}: {result}")
        stimulus(runtime)
    print(kind, {name: found.get(name, 0) for name in ("whole", "told", "broken")})
    assert not wrong, "\n".join(wrong)
    assert sum(found.values()) > COUNT // len(FAILURES) * 0.8 / PARTS


def _lines(runtime: Runtime, stimulus: Stimulus) -> str:
    injector = Injector(None, None)
    assert traced(injector, lambda: stimulus(runtime)) is None
    return str(injector.lines)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_fault_between_what_is_due_and_what_it_leads_to_breaks_the_runtime(kind: str) -> None:
    """Rows are held there until all have seen the instant: whoever goes on would deliver them late."""
    runtime, _ = ready()
    for stimulus in STIMULI[:STEPPING]:
        stimulus(runtime)

    def tracing(frame: FrameType, event: str, arg: object) -> Any:
        return raising if frame.f_code is Turn.advance.__code__ else None

    def raising(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and runtime.turn.queue:
            raise FAILURES[kind]()
        return raising

    before = sys.gettrace()
    sys.settrace(tracing)
    try:
        with pytest.raises((ZeroDivisionError, KeyboardInterrupt, SystemExit)):
            STIMULI[STEPPING](runtime)
    finally:
        sys.settrace(before)
    assert runtime.turn.broken
