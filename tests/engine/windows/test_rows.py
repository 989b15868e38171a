"""What selects of every kind deliver over every window, against naive rows over naive windows."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.engine.sinks import Deltas
from tests.engine.windows.references import Change, Event, Skipped
from tests.engine.windows.rows import Rows, drawn
from tests.engine.windows.test_histories import BYTES, SCHEMA, SUBJECTS, Advance, alike, history
from tests.engine.windows.texts import build
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

# gated windows of groups: their contents have no order that both tell alike
OTHERS = (
    "#lot",
    "#groupwin(k)#gated_length(4, 2)",
    "#groupwin(k)#gated_time(1.5 sec, 0.5 sec, 2)",
    "#groupwin(k)#hopping(1.5 sec, 0.5 sec)",
)
CHAINS = [s.chain for s in SUBJECTS if s.columns == "id" and not s.variable and s.chain not in OTHERS]
COLLECTING = ("batch", "gated")  # the iterator shows what is collected, which no row has been made of
EACH = 15


def tried(chain: str, chance: Random, loose: bool) -> None:
    """A statement drawn for the window, and a history; `loose`: nothing is said about the order of what leaves."""
    select = drawn(chance)
    heard, runtime = Deltas(), Runtime()
    runtime.add_error_listener(lambda error: None)  # an event whose timestamp is null is skipped
    text = select.text(chain)
    runtime.deploy(f"{SCHEMA}@name('s') {text}")
    runtime.statement("s").add_sink(heard)
    window, rows = build(chain), Rows(select)
    for step in history(chance.randbytes(BYTES)):
        change: Change | None = None
        if isinstance(step, Advance):
            change = window.advance(step.time)
            runtime.advance(step.time)
        elif step.type == "E":
            with suppress(Skipped):
                change = window.arrive(Event(step.values), step.time)
            runtime.send("E", dict(step.values))
        expected = None if change is None else rows.delivery(change)
        both = [([*map(plain, d.insert or ())], [*map(plain, d.remove or ())]) for d in heard]
        found = [each for each in both if each[0] or each[1]]
        heard.clear()
        wanted = [] if expected is None else [expected]
        assert same(found, wanted, loose or select.fully), (text, step, found, wanted)
        if not any(name in chain for name in COLLECTING):
            read, held = [[*map(plain, runtime.iterate("s"))]], [rows.reading(window.contents())]
            assert same([read], [held], loose), (text, step, read, held)


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def same(found: Any, wanted: Any, loose: bool) -> bool:
    if len(found) != len(wanted):
        return False
    for one, other in zip(found, wanted, strict=True):
        for left, right in zip(one, other, strict=True):
            if not alike(*((sorted(left, key=repr), sorted(map(tuple, right), key=repr)) if loose else (left, right))):
                return False
    return True


@pytest.mark.parametrize("chain", CHAINS)
def test_rows_of_every_kind(chain: str) -> None:
    loose = next(s.open_order for s in SUBJECTS if s.chain == chain)
    for seed in seeds(EACH):
        tried(chain, Random(f"{chain} {seed}"), loose)
