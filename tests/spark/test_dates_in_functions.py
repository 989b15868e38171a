"""Functions with dates in their annotations on their way to Spark's workers."""

from __future__ import annotations

import datetime as dt
import pickle

from cepbook import Config, Workbench
from cepbook.engine.runtime import Runtime
from cepbook.spark.execution.function_shipping import _pickled, shipped_functions

EPL = """
create schema E(l long, s long);
@name('s') select later(l, s) as a, longest(s) as b from E#length(2);
"""


def test_shipped_functions_get_dates() -> None:
    cep = Workbench(config=Config(time_zone="Europe/Berlin"))

    @cep.function
    def later(at: dt.datetime, by: dt.timedelta) -> dt.datetime:
        assert at.tzinfo is not None and at.hour == 1
        return at + by

    @cep.aggregate
    class longest:
        def __init__(self) -> None:
            self.seconds = [0.0]

        def enter(self, by: dt.timedelta) -> None:
            self.seconds.append(by.total_seconds())

        def leave(self, by: dt.timedelta) -> None:
            self.seconds.remove(by.total_seconds())

        def value(self) -> dt.timedelta:
            return dt.timedelta(seconds=max(self.seconds))

    worker = Runtime(config=cep.runtime.config)
    for name, (function, signature) in shipped_functions(cep.runtime, EPL).items():
        worker.functions[name] = pickle.loads(_pickled(name, function))
        worker.catalog.functions[name] = signature
    rows: list[object] = []
    for runtime in (worker, cep.runtime):
        runtime.deploy(EPL)
        runtime.statement("s").add_listener(lambda delta: rows.append(delta.insert[0]))
        runtime.send("E", {"l": 0, "s": 2_000})
    assert rows[0] == rows[1] == {"a": 2_000, "b": 2_000}
