"""Statements that alone read an event of a keyed context react as if the context located its partition."""

from __future__ import annotations

from random import Random

import pytest

from cepbook.engine.contexts.keyed_context import FlatKeyedContext
from tests.engine.joins.test_one_type import FILTERS, SCHEMA, WINDOWS, history, reactions
from tests.random_cases import seeds

KEYS = ("k from E", "x from E", "k, x from E", "k from E(x > 0)", "k from E(id > 3)")
CLAUSES = ("", " output last every 2 events", " output snapshot every 2 sec", " output all every 1 sec")
COLUMNS = ("count(*) as n, sum(x) as t", "id, x", "context.id as c, context.key1 as k, max(id) as m", "inverse(x) as i")


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(50))
def test_reactions_are_those_of_located_partitions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    window, clause = draw.choice(["", *WINDOWS]), draw.choice(CLAUSES)
    select = f"{draw.choice(['select', 'select irstream'])} {draw.choice(COLUMNS)}"
    epl = (
        f"{SCHEMA}create context C partition by {draw.choice(KEYS)}; @name('s') context C {select} "
        f"from E{draw.choice(FILTERS)}{window}{clause}"
    )
    steps = history(draw)
    sent = [rows[0] for kind, rows in steps if kind == "send"]
    for row in draw.sample(sent, len(sent) // 8):
        row["k"] = ["no key"]  # an event may contain what no type allows
    alone = reactions(epl, steps)
    with monkeypatch.context() as patched:
        patched.setattr(FlatKeyedContext, "_handler_alone", lambda *_: None)
        located = reactions(epl, steps)
    assert repr(alone) == repr(located), epl
