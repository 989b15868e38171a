"""Other values of variables, in random histories: the rows are those of the statement with the values in its text."""

from __future__ import annotations

from random import Random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.widgets.tuner import Tuner
from tests.engine.histories import GAPS
from tests.random_cases import seeds

SCHEMA = """create schema A(id int, k string, x int, t long); create schema B(id int, k string, x int, t long);
create window Kept#time($n sec) as A; insert into Kept select * from B;
create context Spans start A(x=$v) end after $n sec;
"""
STATEMENTS = [  # $v and $n are the variables, or their values
    "select id, x * $v as y from A(x > $v)",
    "select irstream id from A#length($n)",
    "select irstream id from A#time($n sec)",
    "select irstream id from A#ext_timed(t, $n sec)",
    "select irstream id from A#time_batch($n sec)",
    "select irstream id from A#length_batch($n)",
    "select irstream id from A#time_accum($n sec)",
    "select irstream id from A#groupwin(k)#length($n)",
    "select irstream k, sum(x) as s from A#time(2 sec) group by k having count(*) > $v",
    "select k, count(*) as c from A group by k output all every $n sec",
    "select id from A output after $n events",
    "select id from A output when count_insert_total < $n",
    "select id from A#time(2 sec) output every 2 sec order by x desc, id limit $n",
    "select a.id as a, b.id as b from pattern [every a=A(x=$v) -> b=A(x>$v) where timer:within($n sec)]",
    "select a[0].id as a, b.id as b from pattern [every ([$n:] a=A(x>=$v) until b=A(x=0))]",
    "select count(*) as c from pattern [every timer:interval($n sec)]",
    "select a.id as a, b.id as b from A#length($n) as a full outer join B#time(1 sec) as b on a.k = b.k and a.x > $v",
    "select id, (select max(id) from B(x>$v)#length($n)) as m from A",
    "select id, (select sum(x) from Kept) as s from A",
    "context Spans select irstream id from A#length($n)",
    "select * from A match_recognize (measures U.id as a, last(W.id) as b pattern (U W+ Z) interval 2 sec "
    "define U as U.x > $v, W as W.x >= U.x)",
]
VARIABLES = "create variable int v = 1; create variable int n = 2; "
pytestmark = pytest.mark.histories


def text(epl: str, v: int | str, n: int | str) -> str:
    return f"{SCHEMA} @name('out') {epl}".replace("$v", str(v)).replace("$n", str(n))


def live(cep: Workbench, random: Random) -> None:
    """Let events come: by replays, one of which may leap, and by hand."""
    number = 0

    def event(time: int) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"id": number, "k": random.choice("ab"), "x": random.randint(0, 3), "t": time}

    for _ in range(random.randint(1, 3)):
        frames: dict[str, list[dict[str, Any]]] = {"A": [], "B": []}
        time = cep.runtime.now
        for _ in range(random.randint(1, 12)):
            time += random.choice(GAPS)
            frames[random.choice("AAB")].append(event(time))
        sources = {name: pd.DataFrame(rows) for name, rows in frames.items() if rows}
        cep.replay(sources, time="t", leap=random.random() < 0.3).run()
        for _ in range(random.choice((0, 1, 2))):
            cep.send(random.choice("AB"), event(cep.runtime.now))
        if random.random() < 0.3:
            cep.send_together(("A", event(cep.runtime.now)), ("B", event(cep.runtime.now)))
        if random.random() < 0.5:
            cep.advance(cep.runtime.now + random.choice((1, 1000, 2500, 7000)))


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("epl", STATEMENTS)
def test_rows_with_other_values(epl: str, seed: int) -> None:
    random = Random(seed)
    v, n = random.randint(0, 3), random.randint(1, 4)
    cep, written = Workbench(), Workbench()
    cep.run(VARIABLES + text(epl, "v", "n"))
    written.run(text(epl, v, n))
    for workbench in (cep, written):
        live(workbench, Random(seed))
    tuner = Tuner(cep, ["out"], {"v": (0, 3), "n": (1, 4)})
    tuner.controls["v"].value, tuner.controls["n"].value = v, n
    tuned = cep.again(tuner.values, past=tuner.past)
    pd.testing.assert_frame_equal(tuned.changes("out"), written.changes("out"))


EVENTS = [{"id": number, "k": "a", "x": 1, "t": 0} for number in range(5)]


def ids(cep: Workbench) -> list[Any]:
    return cep.to_frame("out")["id"].tolist()


@pytest.mark.parametrize("begin", [Workbench.rewind, Workbench.rehearsal])
def test_the_size_of_a_window_is_the_value_that_was_set(begin: Any) -> None:
    cep = Workbench()
    cep.run(VARIABLES + text("select id from A#length(n)", "v", "n"))
    cep.set("n", 3)
    cep = begin(cep) or cep
    for event in EVENTS:
        cep.send("A", event)
    assert ids(cep) == [2, 3, 4]
    assert [bar.left for bar in cep.marble("out").bars] == [0, 0, None, None, None]
    assert [event["id"] for event in cep.why("out").windows[0].events] == [2, 3, 4]


def test_a_rewound_workbench_with_a_set_size_is_saved_and_loaded(tmp_path: Any) -> None:
    cep = Workbench()
    cep.run(VARIABLES + "create variable int[] many = {1}; " + text("select id from A#length(n)", "v", "n"))
    cep.set("n", 3)
    cep.set("many", [1, 2])
    cep.rewind()
    for event in EVENTS:
        cep.send("A", event)
    cep.save(tmp_path / "saved")
    loaded = Workbench()
    loaded.load(tmp_path / "saved")
    loaded.send("A", EVENTS[0])
    assert (ids(loaded), loaded.get("n"), loaded.get("many")) == ([3, 4, 0], 3, [1, 2])
