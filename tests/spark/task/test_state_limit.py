"""Spark's tasks refuse events as the kernel does while a statement keeps too much (`Config.state_limit`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cepbook.engine.runtime import Config
from cepbook.errors import StateLimitError
from cepbook.spark.execution.spark_actions import error_behind
from tests.spark.streaming.test_processor import QUERIES, expected, history, program_of, streamed
from tests.spark.tasks import Recorded, differences


@pytest.mark.parametrize("size", [0, 50])
@pytest.mark.parametrize("limit", [None, 10_000, 100, "1 GB", "2 kB"])
def test_tasks_end_when_a_statement_keeps_too_much(size: int, limit: int | str | None) -> None:
    engine = Recorded(0, {"state_limit": limit})
    engine.deploy("create schema E(n int); @name('s') select count(*) as c, max(n) as m from E#keepall", "d")
    for n in range(200):
        engine.send("E", {"n": n})
    if limit in (100, "2 kB"):
        with pytest.raises(StateLimitError, match=rf"statement `s` keeps .* rows\)?, more than the limit of {limit}"):
            differences(engine, size=size)
    else:
        assert differences(engine, size=size)[0] == []


@pytest.mark.parametrize("size", [0, 40])
@pytest.mark.parametrize("steps", [False, True])
def test_the_time_of_the_next_event_makes_room(size: int, steps: bool) -> None:
    engine = Recorded(0, {"state_limit": 100})
    engine.deploy("create schema E(n int); @name('s') select irstream n from E#time(10 sec)", "d")
    engine.steps = steps
    for n in range(304):
        if n and n % 101 == 0:
            engine.advance(n * 1000, stepping=steps)
            engine.odd = ""
        engine.send("E", {"n": n})
    assert differences(engine, size=size)[0] == []


def limited(epl: str, limit: int | None) -> Any:
    return replace(program_of(epl), config=Config(state_limit=limit))


@pytest.mark.parametrize("epl", QUERIES)
def test_a_stream_within_the_limit_is_the_same_with_and_without(epl: str) -> None:
    for seed in range(2):
        events = history(seed)
        rows, errors = streamed(limited(epl, 120), events, seed)
        assert (rows, errors) == (expected(epl, events, 10**7), [])


@pytest.mark.parametrize(
    "epl",
    [
        "select s, n from T#keepall",
        "select irstream s, n from T#time(1 hour)",
        "select n, count(*) as c from T group by n",
        "context P select a.n as x from pattern [every a=T -> b=Q(p < 0)]",
    ],
)
def test_a_stream_ends_when_a_statement_keeps_too_much(epl: str) -> None:
    with pytest.raises(StateLimitError, match="more than the limit of 20: no event enters the engine"):
        streamed(limited(epl, 20), history(1), 1)


def test_the_error_of_a_task_reaches_the_user_whole() -> None:
    engine = Recorded(0, {"state_limit": 100})
    engine.deploy("create schema E(n int);\n@name('s') select count(*) as c from E#keepall", "d")
    for n in range(200):
        engine.send("E", {"n": n})
    with pytest.raises(StateLimitError) as refused:
        differences(engine)
    text = f"""org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "task_runner.py", line 101, in run_task
cepbook.errors.StateLimitError: {refused.value}

\tat org.apache.spark.api.python.BasePythonRunner"""
    error = error_behind(text)
    assert isinstance(error, StateLimitError) and error.statement == "s" and str(error) == str(refused.value)
