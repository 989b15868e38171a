"""A replay whose statements or listeners failed raises after its last event, whoever runs it and however."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import ReplayError, StatementError, UsageError
from cepbook.session import Replay, ReplayResult, Workbench
from cepbook.widgets import ReplayControl

FRAME = pd.DataFrame({"ts": range(0, 5000, 1000), "v": [1, 2, 0, 4, 5]})
FAILURES = {
    "an expression": ("@name('out') select inverse(v) as y from E", None, 1),
    "a filter": ("@name('out') select v from E(inverse(v) > 0)", None, 1),
    "an aggregate": ("@name('out') select sum(inverse(v)) as y from E#length(3)", None, 1),
    "a statement fed by another": (
        "insert into F select v from E; @name('out') select inverse(v) as y from F",
        None,
        1,
    ),
    "a key": ("create context C partition by v from E; @name('out') context C select inverse(v) as y from E", None, 1),
    "a timer": ("@name('out') select inverse(0) as y from pattern [every timer:interval(2 sec)]", None, 2),
    "a listener": ("@name('out') select v from E", KeyError("nobody"), 5),
    "a variable": ("create variable double w; on E set w = inverse(v); @name('out') select v from E", None, 1),
}


def bench(epl: str, failure: Exception | None) -> Workbench:
    cep = Workbench()
    cep.define("E", FRAME, time="ts")

    @cep.function
    def inverse(x: int) -> float:
        return 1 / x

    cep.run(epl)
    if failure is not None:

        def listener(_: object) -> None:
            raise failure

        cep.on("out", listener)
    return cep


Runner = Callable[[Workbench, dict[str, Any]], ReplayResult | None]


def _run(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    return cep.replay(FRAME, "E", **options).run()


def _rows(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    return cep.replay(FRAME.to_dict("records"), "E", **options).run()


def _await(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    async def main() -> ReplayResult:
        return await cep.replay(FRAME, "E", **options)

    return asyncio.run(main())


def _bar(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    async def main() -> ReplayResult:
        replay = cep.replay(FRAME, "E", **options)
        bar = ReplayControl(replay)
        try:
            return await replay
        finally:
            assert "statement error" in bar.freeze().text
            bar.close()

    return asyncio.run(main())


def _thread(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    outcome: list[ReplayResult | BaseException | None] = []

    def work() -> None:
        try:
            outcome.append(cep.replay(FRAME, "E", **options).run())
        except BaseException as error:  # noqa: BLE001  raised below
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _paused_and_run(cep: Workbench, options: dict[str, Any]) -> ReplayResult | None:
    replay = cep.replay(FRAME, "E", paused=True, **options)
    replay.step()
    return replay.run()


RUNNERS: dict[str, tuple[Runner, dict[str, Any]]] = {
    "columns": (_run, {}),
    "rows": (_rows, {}),
    "leaping": (_run, {"leap": True}),
    "real time": (_run, {"speed": 1e6}),
    "snapshots": (_run, {"keep": 2}),
    "awaited": (_await, {}),
    "with a bar": (_bar, {}),
    "in a thread": (_thread, {}),
    "after a step": (_paused_and_run, {}),
}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("kind", FAILURES)
def test_every_failure_is_raised_by_every_runner(runner: str, kind: str) -> None:
    epl, failure, count = FAILURES[kind]
    run, options = RUNNERS[runner]
    if runner == "after a step" and kind == "a listener":
        pytest.skip("the step raises it")
    cep = bench(epl, failure)
    with pytest.raises(ReplayError) as raised:
        run(cep, options)
    error = raised.value
    assert isinstance(error.result, ReplayResult)
    assert (error.result.state, error.result.events, error.result.errors) == ("finished", 5, count)
    assert error.result.failures == cep.errors
    assert error.cause is error.__cause__ and isinstance(error.cause, ZeroDivisionError | KeyError)
    assert 'errors="keep"' in str(error) and "5 events" in str(error)

    cep = bench(epl, failure)
    if runner != "with a bar":
        result = run(cep, {**options, "errors": "keep"})
        assert result is not None
        assert (result.events, result.errors, result.failures) == (5, count, cep.errors)


def test_a_step_raises_its_own_failures_as_send_does() -> None:
    cep = bench(*FAILURES["an expression"][:2])
    replay = cep.replay(FRAME, "E", paused=True)
    replay.step(2)
    with pytest.raises(StatementError, match="`out` failed on an event: ZeroDivisionError"):
        replay.step()
    replay.step(2)
    replay.step()
    assert (replay.state, replay.result.errors) == ("finished", 1)
    keeping = bench(*FAILURES["an expression"][:2]).replay(FRAME, "E", paused=True, errors="keep")
    keeping.step(9)
    assert keeping.progress.errors == 1


@pytest.mark.parametrize("failing", ["statement", "source"])
def test_a_replay_that_nobody_awaits_prints_its_error(failing: str, capsys: pytest.CaptureFixture[str]) -> None:
    cep = bench(*FAILURES["an expression"][:2])
    rows: list[Any] = [*FRAME.to_dict("records"), *(["rubbish"] if failing == "source" else [])]

    async def main() -> Replay[Workbench]:
        replay = cep.replay(rows, "E")
        while replay.is_scheduled:
            await asyncio.sleep(0)
        return replay

    replay = asyncio.run(main())
    printed = capsys.readouterr().err
    if failing == "statement":
        assert printed.startswith("cepbook: 1 statement error in a replay of 5 events: `out` 1.")
        assert replay.result.errors == 1
    else:
        assert printed.startswith("cepbook: row 5 of `E`")


def test_the_past_of_a_replay_with_failures_can_be_visited() -> None:
    replay = bench(*FAILURES["an expression"][:2]).replay(FRAME, "E", keep=2)
    with pytest.raises(ReplayError):
        replay.run()
    assert replay.at(4000).clock.ms == 4000


def test_errors_of_other_days_are_not_those_of_the_replay() -> None:
    cep = bench(*FAILURES["an expression"][:2])
    with pytest.raises(StatementError):
        cep.send("E", ts=0, v=0)
    result = cep.replay(FRAME[:2], "E").run()
    assert result is not None and result.errors == 0


def test_errors_cleared_meanwhile_still_count() -> None:
    cep = bench(*FAILURES["an expression"][:2])
    replay = cep.replay(FRAME, "E")
    replay.subscribe(cep.clear_errors)
    with pytest.raises(ReplayError, match=r"1 statement error in a replay of 5 events"):
        replay.run()


def test_more_failures_than_are_kept() -> None:
    cep = bench(*FAILURES["an expression"][:2])
    with pytest.raises(ReplayError, match=r"`out` 1,000, earlier 1,500"):
        cep.replay(pd.DataFrame({"ts": range(2500), "v": 0}), "E").run()


def test_the_policy_is_checked(tmp_path: Path) -> None:
    cep = bench(*FAILURES["an expression"][:2])
    with pytest.raises(UsageError, match='"raise" or "keep"'):
        cep.replay(FRAME, "E", errors="ignore")  # type: ignore[arg-type]
