"""What a workbench has done with goes: runtimes of which snapshots were taken, too."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from cepbook.session import Workbench
from cepbook.session.core.garbage_collection import CollectionPause, garbage


def test_a_runtime_that_was_saved_goes_with_its_rewinding() -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double); select * from Tick#length(3)")
    ticks = [{"time": i, "price": 1.0 * i} for i in range(20)]
    replay = cep.replay(ticks, type="Tick", time="time", keep=5)
    replay.run()
    former = ref(cep.runtime)
    cep.rewind()
    cep.replay(ticks, type="Tick", time="time", keep=5).run()
    gc.collect()
    assert former() is None
    assert replay.result.events == 20, "a notebook keeps what its cells gave"


@pytest.mark.histories
@pytest.mark.parametrize("reset", [False, True])
def test_what_began_anew_again_and_again_leaves_little(reset: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "MUCH", 6_000)
    monkeypatch.setattr(garbage, "_least_blocks", 0)
    cep = Workbench()
    former = []
    for _ in range(6):
        if reset:
            cep.reset()
            former.append(ref(cep.runtime))
        if reset or not former:
            cep.run("create schema Tick(price double); select * from Tick#keepall")
        if not reset:
            cep.rewind()
            former.append(ref(cep.runtime))
        cep.replay([{"time": i, "price": 1.5 * i} for i in range(6_000)], type="Tick", time="time").run()
        monkeypatch.setattr(garbage, "_least_blocks", 0)
    cep.rewind()
    assert [reference() for reference in former] == [None] * 6


@pytest.mark.histories
def test_workbenches_of_the_past_go_when_nobody_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double); select * from Tick#keepall")
    replay = cep.replay([{"time": i, "price": 1.5 * i} for i in range(6_000)], type="Tick", time="time", keep=1_500)
    replay.run()
    monkeypatch.setattr(garbage, "MUCH", 6_000)
    seen = []
    for at in range(1_200, 6_000, 600):
        monkeypatch.setattr(garbage, "_least_blocks", 0)
        seen.append(ref(replay.at(at)))
    assert [reference() for reference in seen[:-1]] == [None] * (len(seen) - 1)


def test_a_text_of_thousands_of_statements_is_deployed_without_a_collection() -> None:
    """All of it stays. 10,000 patterns spent a third of their time in collections that found nothing."""
    cep = Workbench(feed_capacity=10)
    cep.run("create schema Tick(price double)")
    text = ";".join(f"@name('rule{number}') select * from Tick(price = {number})" for number in range(2_500))
    collections: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and gc.get_threshold()[0] >= CollectionPause.OBJECTS:
            collections.append(info["generation"])

    gc.callbacks.append(note)
    try:
        cep.run(text)
    finally:
        gc.callbacks.remove(note)
    assert not collections


def test_single_deployments_beside_many_statements_collect_seldom_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cep = Workbench()
    cep.run("create schema Tick(price double)")
    cep.run(";".join(f"@name('rule{number}') select * from Tick(price = {number})" for number in range(120)))
    cep.run("@name('own') select * from Tick(price = 7)")
    monkeypatch.setattr(garbage, "MUCH", 0)
    monkeypatch.setattr(garbage, "_changes", 0)
    former = ref(cep.runtime.statements["own"])
    collections: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(info["generation"])

    gc.callbacks.append(note)
    try:
        for number in range(99):
            cep.run(f"@name('own') select * from Tick(price = {number}.5)")
    finally:
        gc.callbacks.remove(note)
    assert 2 not in collections
    monkeypatch.setattr(garbage, "_least_blocks", 0)
    cep.run("@name('own') select * from Tick(price = 7)")
    assert former() is None
