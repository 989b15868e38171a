"""Queries of other dialects over Spark: the same rows as in the workbench."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

from cepbook import Workbench

QUERIES = {
    "chain": "stream<float> b := from t in all Tick() within 3.0 every 1.0 select t.p; "
    "from x in b retain 3 select sum(x)",
    "groups": "from t in all Tick() within 2.0 group by t.s select sum(t.p)",
    "event": "event R { string s; float p; } from t in all Tick(p > 3.0) retain 2 select rstream R(t.s, t.p)",
}


def test_apama_over_spark(spark: Any) -> None:
    rng, now, rows = random.Random(1), 0, []
    for number in range(200):
        now += rng.choice((0, 100, 700))
        rows.append((now, rng.choice("abc"), float(number % 7)))
    ticks = pd.DataFrame(rows, columns=["t", "s", "p"])
    cep = Workbench()
    cep.run("create schema Tick(t long, s string, p double)")
    for name, text in QUERIES.items():
        cep.run(text, dialect="apama", name=name)
    cep.replay(ticks, type="Tick", time="t", until=now + 5000).run()
    run = cep.spark({"Tick": ticks}, time="t", statements=list(QUERIES), until=now + 5000, session=spark)
    cep.compare(run).assert_same()
