"""The progress of an ended replay keeps its clock when another replay moves on, or the workbench begins anew."""

from __future__ import annotations

import pandas as pd
import pytest

from cepbook.session import Workbench


def ticks(count: int) -> pd.DataFrame:
    return pd.DataFrame({"at": range(1000, 1000 * (count + 1), 1000), "x": range(count)})


@pytest.fixture
def cep() -> Workbench:
    cep = Workbench()
    cep.run("create schema T(at long, x long); @name('out') select x from T")
    return cep


def test_after_a_rewind(cep: Workbench) -> None:
    first = cep.replay({"T": ticks(5)}, time="at")
    first.run()
    cep.rewind()
    assert first.progress.clock == 5000
    second = cep.replay({"T": ticks(2)}, time="at")
    second.run()
    assert (first.progress.clock, second.progress.clock) == (5000, 2000)


def test_a_second_replay_continues(cep: Workbench) -> None:
    first = cep.replay({"T": ticks(2)}, time="at")
    first.run()
    cep.advance(3000)
    assert first.progress.clock == 3000, "moved by hand, with no other replay"
    cep.replay({"T": ticks(5).tail(2)}, time="at").run()
    assert first.progress.clock == 3000
