"""What a workbench has done with goes: runtimes of which snapshots were taken, too."""

from __future__ import annotations

import gc
from weakref import ref

from cepbook.session import Workbench


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
