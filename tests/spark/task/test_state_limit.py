"""Spark's tasks refuse events as the kernel does while a statement keeps too much (`Config.state_limit`)."""

from __future__ import annotations

import pytest

from cepbook.errors import StateLimitError
from tests.spark.tasks import Recorded, differences


@pytest.mark.parametrize("size", [0, 50])
@pytest.mark.parametrize("limit", [None, 10_000, 100])
def test_tasks_end_when_a_statement_keeps_too_much(size: int, limit: int | None) -> None:
    engine = Recorded(0, {"state_limit": limit})
    engine.deploy("create schema E(n int); @name('s') select count(*) as c, max(n) as m from E#keepall", "d")
    for n in range(200):
        engine.send("E", {"n": n})
    if limit == 100:
        with pytest.raises(StateLimitError, match=r"statement `s` keeps .* rows, more than the limit of 100"):
            differences(engine, size=size)
    else:
        assert differences(engine, size=size)[0] == []
