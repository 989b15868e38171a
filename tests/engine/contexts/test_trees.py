"""Random contexts of one to three levels, under random histories: what must hold of every tree at any time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.contexts.tree_nodes import Branch
from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError, StatementError
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

SCHEMA = "".join(f"create schema {name}(id string, v int);" for name in "SPED")
BEGINS = [
    "S",
    "S(v > 1) as s",
    "pattern [a=S -> b=P]",
    "pattern [S or P]",
    "pattern [every a=S(v > 0)] @inclusive",
    "(*/2, *, *, *, *)",
    "(*, *, *, *, *, 30)",
    "after 90 sec",
]
ENDS = [
    "by E",
    "by E as e",
    "by S(v < 1)",
    "by pattern [E -> timer:interval(20 sec)]",
    "by pattern [te=E or timer:interval(100 sec)] as tp",
    "(*, *, *, *, *, 10)",
    "after 45 sec",
    None,
]
SELECTS = [
    "select id, count(*) as c from D",
    "select sum(v) as t from D#time(50 sec) output last every 30 sec",
    "select context.id as cid",
    "select v from D output all when terminated",
    "select a.v as x, b.v as y from pattern [every a=D -> b=D(id = a.id)]",
    "select irstream v from S#length(2)",
    "select context.id as cid output when terminated",
]


def level(draw: random.Random) -> str:
    """One level of any kind."""
    begin, end = draw.choice(BEGINS), draw.choice(ENDS)
    if begin.endswith("as s") and draw.random() < 0.5:
        end = "by E(id = s.id)"
    match draw.randrange(6):
        case 0:
            initiated = draw.choice(["", " initiated by S(v > 0) as f"])
            return f"partition by id from S, id from D, id from E{initiated}" + _ended(" terminated", end, "s.id")
        case 1:
            functions = "hash_code(id) from S, consistent_hash_crc32(id) from D"
            return f"coalesce by {functions} granularity 3" + draw.choice(["", " preallocate"])
        case 2:
            return "group v > 1 as big, group v <= 1 as small, group id = 'a' as of_a from D"
        case 3 | 4:
            begin = draw.choice([begin, "@now"])
            return f"start {begin}" + _ended(" end", end, "" if begin.endswith("as s") else "s.id").replace(
                "end by", "end"
            )
        case _:
            now = "@now and " if not begin.startswith("S") and draw.random() < 0.3 else ""
            distinct = "distinct(id) " if begin.endswith("as s") and draw.random() < 0.4 else ""
            return f"initiated by {distinct}{now}{begin}" + _ended(" terminated", end)


def _ended(word: str, end: str | None, without: str = "") -> str:
    """The end of a level; none if it refers to what the level does not have."""
    return "" if end is None or (without and without in end) else f"{word} {end}"


def fits(select: str, context: str) -> bool:
    """Whether the context `C` partitions what a statement reads: categories do so with events of their types only."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(context)
    try:
        runtime.compile(f"context C {select}")
    except BindError as failure:
        assert {diagnostic.code for diagnostic in failure.diagnostics} == {"wrong-context"}
        return False
    return True


class Watched:
    """A runtime with one context, and what its partition listener was told."""

    def __init__(self, draw: random.Random) -> None:
        self.runtime = Runtime(start=draw.choice([0, 1_709_539_200_000, 1_706_659_259_123]))
        self.failures: list[StatementError] = []
        self.live: set[int] = set()
        self.runtime.add_error_listener(self.failures.append)
        self.runtime.add_partition_listener("C", self.told)
        self.runtime.deploy(SCHEMA)
        levels = [level(draw) for _ in range(draw.choice([1, 1, 2, 2, 3]))]
        nested = ", ".join(f"context L{i} {each}" for i, each in enumerate(levels))
        self.epl = f"create context C {levels[0] if len(levels) == 1 else nested}"
        self.runtime.deploy(self.epl)

    def told(self, notice: PartitionNotice) -> None:
        if notice.kind == "allocated":
            assert notice.partition is not None and notice.partition not in self.live
            self.live.add(notice.partition)
        elif notice.kind == "deallocated":
            assert notice.partition is not None
            self.live.remove(notice.partition)

    def check(self) -> None:
        """Partitions, notices and the leaves of the tree are the same; nothing has failed."""
        ids = [partition["id"] for partition in self.runtime.partitions("C")]
        assert ids == sorted(self.live), self.epl
        tree = self.runtime.context("C")
        if isinstance(tree, TreeContext):
            root: Any = tree._root
            assert sorted(_leaves(root)) == ids, self.epl
        assert self.failures == [], self.epl


def _leaves(branch: Branch | None) -> list[int]:
    found: list[int] = []
    for node in () if branch is None else branch.children.values():
        assert not node.ended and node.branch is branch
        found += _leaves(node.below) if node.partition is None else [node.partition.id]
    return found


@pytest.mark.parametrize("seed", seeds(50))
def test_random_trees(seed: int) -> None:
    draw = random.Random(seed)
    watched = Watched(draw)
    runtime = watched.runtime
    selects = [select for select in draw.sample(SELECTS, 3) if fits(select, watched.epl)]
    for number, select in enumerate(selects):
        priority = draw.choice(["", "", "@priority(1) ", "@priority(-1) "])
        runtime.deploy(f"@name('s{number}') {priority}context C {select}", deployment_id=f"d{number}")
        runtime.statement(f"s{number}").add_listener(lambda delta: None)
        for _ in range(20):
            _stimulate(draw, runtime)
            watched.check()
        for name in runtime.statements:
            runtime.iterate(name)
            runtime.state(name)
    for number in range(len(selects)):
        runtime.undeploy(f"d{number}")
    assert watched.live == set()
    runtime.send("S", {"id": "a", "v": 1})
    runtime.advance(runtime.now + 10_000_000)
    watched.check()


def _stimulate(draw: random.Random, runtime: Runtime) -> None:
    """An event, a step of the clock, or the end of a partition by hand."""
    chance = draw.random()
    live = runtime.partitions("C")
    if chance < 0.7:
        runtime.send(draw.choice("SSPEDDD"), {"id": draw.choice("ab"), "v": draw.randrange(3)})
    elif chance < 0.95 or not live:
        step = draw.choice([1, 999, 1000, 20_000, 45_000, 100_000, 3_600_000])
        runtime.advance(runtime.now + step, stepping=draw.random() < 0.2)
    else:
        runtime.end_partition("C", draw.choice(live)["id"])
