"""Saved workbenches with the right checksum and wrong contents: refused, and nothing is replaced.

`CEPBOOK_FORGED` is the number of forged files, `CEPBOOK_DAMAGED` that of damaged ones.
"""

from __future__ import annotations

import copy
import os
import random
import resource
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.snapshot.file_format import (
    BLOCKS_END,
    MAGIC,
    VERSION,
    SnapshotReader,
    pack_document,
    unpack_document,
    write_snapshot,
)
from cepbook.errors import SnapshotError, UsageError

FORGED = int(os.environ.get("CEPBOOK_FORGED", "40"))
DAMAGED = int(os.environ.get("CEPBOOK_DAMAGED", "40"))
EPL = """create schema E(k string, x int);
create variable int MOST = 2;
create table T(k string primary key, n count(*));
into table T select count(*) as n from E group by k;
create context Keys partition by k from E;
@name('sums') context Keys select k, sum(x) as s from E#time(5 sec) output last every 3 events;
@name('pairs') select a.x as x from pattern [every a=E(x > MOST) -> b=E(k = a.k)];
"""
RUBBISH = (None, True, -1, 10**9, 10**400, 0.5, "", "x", "\x00", [], [0], [10**6], [[]], {}, {"x": 1}, [None, "state"])


def filled(epl: str = EPL) -> Workbench:
    cep = Workbench()
    cep.run(epl)
    for number in range(12):
        cep.send("E", k="ab"[number % 2], x=number)
        cep.advance(by="1 sec")
    return cep


def state(cep: Workbench) -> tuple[Any, ...]:
    statements = list(cep.runtime.statements)
    return cep.runtime.now, statements, cep.changes("sums").to_csv(), cep.runtime.snapshot()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All containers of a document with their indexes or keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def forged(document: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    other = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 3))):
        # first a section, so that the short ones are met as often as the long ones
        section = draw.choice(list(other))
        container, key = draw.choice([(other, section), *places(other[section])])
        if draw.random() < 0.2:
            del container[key]
        else:
            container[key] = copy.deepcopy(draw.choice(RUBBISH))
    return other


@pytest.mark.histories
def test_a_forged_file_is_loaded_or_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "saved.cep"
    filled().save(path, feeds=True)
    document = unpack_document(path.read_bytes())
    draw, loader = random.Random(7), Loader()
    for _ in range(FORGED):
        path.write_bytes(pack_document(forged(document, draw)))
        loader.load(path)
    assert loader.refused > FORGED // 2


class Loader:
    """Loads files into a workbench, which a refused one must not change."""

    def __init__(self) -> None:
        self._before: tuple[Workbench, tuple[Any, ...]] | None = None
        self.count = self.refused = 0

    def load(self, path: Path) -> Workbench | None:
        """A workbench with the contents of the file; None if it is refused."""
        if self._before is None:
            cep = filled("create schema E(k string, x int); @name('sums') select sum(x) as s from E;")
            self._before = cep, state(cep)
        (cep, before), self.count = self._before, self.count + 1
        try:
            cep.load(path)
        except SnapshotError as error:
            assert "Traceback" not in str(error)
            assert state(cep) == before, self.count
            self.refused += 1
            return None
        self._before = None
        return cep


@pytest.mark.histories
def test_forged_rows_of_feeds_are_loaded_or_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "saved.cep"
    spilling().save(path, feeds=True)
    with path.open("rb") as file:
        reader = SnapshotReader(file)
        document, blocks = reader.document(), list(reader.blocks())
    assert len(blocks) > 9
    draw, loader = random.Random(5), Loader()
    for _ in range(FORGED):
        wrong = list(blocks)
        at = draw.randrange(len(wrong))
        for _ in range(draw.choice((0, 0, 0, 50))):
            wrong.append(wrong[at])  # more rows than were delivered
        wrong[at] = draw.choice((forged(wrong[at], draw), forged(wrong[at], draw), draw.choice(RUBBISH)))
        with path.open("wb") as file:
            write_snapshot(file, document, wrong)
        cep = loader.load(path)
        if cep is not None:
            cep.changes("sums")
    assert loader.refused > FORGED // 2


def spilling() -> Workbench:
    """A workbench whose feeds have most rows in a file."""
    cep = Workbench(feed_capacity=4)
    cep.run(EPL)
    for number in range(120):
        cep.send("E", k="ab"[number % 2], x=number)
        cep.advance(by="1 sec")
    return cep


def test_a_damaged_file_with_rows_of_feeds_is_refused(tmp_path: Path) -> None:
    path, key = tmp_path / "saved.cep", b"secret"
    spilling().save(path, feeds=True, key=key)
    data, cep = path.read_bytes(), spilling()
    before = state(cep)
    assert BLOCKS_END in data
    for at in range(0, len(data), 397):
        for wrong in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            path.write_bytes(wrong)
            with pytest.raises(SnapshotError):
                cep.load(path, key=key)
    assert state(cep) == before
    body = data.split(b"\n", 1)[1]
    for at in range(0, len(body), 1597):  # with a checksum that fits
        path.write_bytes(file_of_body(body[:at] + body[at + 3 :]))
        with suppress(SnapshotError):
            cep.load(path)


@pytest.mark.histories
def test_rows_of_feeds_are_saved_and_loaded_piece_by_piece(tmp_path: Path) -> None:
    program = (
        "import resource, sys\nimport numpy as np, pandas as pd\nfrom cepbook import Workbench\n"
        "def used():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "cep = Workbench(feed_capacity=1_000)\n"
        "if sys.argv[2] == 'save':\n"
        "    cep.run('create schema E(a double, b double, c double); @name(\"q\") select a, b, c from E')\n"
        "    frame = pd.DataFrame(np.random.default_rng(1).random((200_000, 3)), columns=list('abc'))\n"
        "    cep.replay(frame.assign(t=range(200_000)), 'E', time='t').run()\n"
        "before = used()\n"
        "getattr(cep, sys.argv[2])(sys.argv[1], **({'feeds': True} if sys.argv[2] == 'save' else {}))\n"
        "assert cep.feed('q').lost == 0 and cep.feed('q').total_insert == 200_000\n"
        "print(used() - before)\n"
    )
    path = tmp_path / "saved.cep"
    for action in ("save", "load"):
        done = subprocess.run([sys.executable, "-c", program, str(path), action], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= 12, f"{action}: {done.stdout} MiB, and the file has {path.stat().st_size >> 20}"
    assert path.stat().st_size > 4 << 20


def file_of(text: bytes) -> bytes:
    return file_of_body(zlib.compress(text, 6))


def file_of_body(body: bytes) -> bytes:
    return b"%s%d %s\n" % (MAGIC, VERSION, sha256(body).hexdigest().encode()) + body


BOMBS = {
    "a long text": b'{"modules": "' + b"x" * 10**8 + b'"}',
    "many lists": b"[" + b"[]," * (40 * 10**6) + b"0]",
    "few lists": b'{"modules": [' + b"[]," * (2 * 10**6) + b"0]}",
    "deep lists": b"[" * 10**6 + b"]" * 10**6,
    "no object": b"[1, 2]",
    "deep types": b'{"modules": [], "types": ' + b"[" * 900 + b"]" * 900 + b"}",
}


def test_small_files_cannot_fill_the_memory(tmp_path: Path) -> None:
    for name, text in BOMBS.items():
        (tmp_path / f"{name}.cep").write_bytes(file_of(text))
    program = (
        "import resource, sys\nfrom cepbook import Workbench\nfrom cepbook.errors import SnapshotError\n"
        "cep = Workbench()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        cep.load(path)\n"
        "    except SnapshotError as error:\n"
        "        assert 'damaged' in str(error) or 'setting' in str(error), error\n"
        "    else:\n        raise SystemExit(f'{path} is loaded')\n"
        "    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024\n"
        "    assert used <= 300, f'{path}: {used} MiB'\n"
    )
    command = [sys.executable, "-c", program, *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_state_that_compresses_very_well_can_be_saved_and_loaded(tmp_path: Path) -> None:
    cep = Workbench()
    cep.run("create schema E(text string); @name('all') select text from E#keepall;")
    cep.send("E", text="x" * 20_000_000)
    cep.save(tmp_path / "long.cep")
    other = Workbench()
    other.load(tmp_path / "long.cep")
    assert len(other.iterate("all")[0]["text"]) == 20_000_000


def test_a_key_tells_who_wrote_a_file(tmp_path: Path) -> None:
    path, cep = tmp_path / "signed.cep", filled()
    cep.save(path, key="secret", feeds=True)
    for key in ("secret", b"secret", None):
        other = Workbench()
        other.load(path, key=key)
        assert state(other)[:3] == state(cep)[:3]
    with pytest.raises(SnapshotError, match="signed with another key"):
        cep.load(path, key="other")
    cep.save(path)
    with pytest.raises(SnapshotError, match="is not signed"):
        cep.load(path, key="secret")
    for wrong in ("", b"", 5):
        with pytest.raises(UsageError, match="`key` is bytes or text"):
            cep.save(path, key=wrong)  # type: ignore[arg-type]


FUNCTIONS = """create schema E(k string, x int);
create variable long V = three(1);
create constant variable long C = three(2);
create variable long W = three(V);
create table T(k string primary key, n count(*));
into table T select count(*) as n from E group by k;
create window Rows#keepall as (k string, x int);
create index Ix on Rows(x);
insert into Rows select k, x from E(x > three(0));
on E(x = 2) as e merge Rows as r where r.x = three(e.x) when matched then update set x = few(1);
create window Copy#length(few(2)) as Rows insert where yes(x);
select k from E#length(few(7));
select k from E#time(three(7) sec);
select k from E#expr(yes(x));
select sum(x) as s from E#some(x);
select Summed(x) as s, middle(x) as m from E#length(2) group by k;
create context Keys partition by k from E;
context Keys select k, Summed(x) as s from E#length(few(1)) output last every 3 events;
create context Hashed coalesce by consistent_hash_crc32(k) from E granularity 4 preallocate;
context Hashed select Summed(x) as s from E;
create context Now start @now end after three(2) sec;
context Now select Summed(x) as s, three(x) as t from E output snapshot when terminated;
create context Begun initiated by E(yes(x)) terminated after three(5) seconds;
context Begun select three(x) as y from E#length(few(2));
select a.x as x from pattern [every a=E(yes(x)) -> timer:interval(three(1) sec)];
select three(1) as x from pattern [timer:interval(0) -> every timer:interval(three(1) sec)];
select count(*) as c from E output snapshot every three(4) seconds;
select three(count(*)) as c from E output last when yes(V) then set W = three(V);
select e.x as x from E#length(few(2)) as e, E#lastevent as r where three(e.x) = r.x;
select (select max(three(x)) from E#length(few(3))) as y, three(T['a'].n) as n from E;
select three(x) as y from Rows;
select * from E#length(few(3)) match_recognize (measures A.x as x pattern (A) define A as yes(A.x));
select three(5) as y;
on pattern [every timer:interval(three(1) sec)] set W = three(W)"""


def calling(calls: list[str]) -> Workbench:
    """A workbench with functions that record their calls, and one whose object could be hashed and compared."""
    cep = Workbench()

    class Summed:
        def __init__(self) -> None:
            calls.append("new")
            self.total = 0

        def enter(self, value: int) -> None:
            calls.append("enter")
            self.total += value

        def leave(self, value: int) -> None:
            calls.append("leave")
            self.total -= value

        def value(self) -> int:
            calls.append("value")
            return self.total

    class Few:
        def __call__(self, value: int) -> int:
            calls.append("few")
            return 3

        def __hash__(self) -> int:
            calls.append("hash")
            return 1

        def __eq__(self, other: object) -> bool:
            calls.append("eq")
            return self is other

        def __lt__(self, other: object) -> bool:
            calls.append("lt")
            return True

    def three(value: int) -> int:
        calls.append("three")
        return 3

    def yes(value: int) -> bool:
        calls.append("yes")
        return True

    def middle(values: list[int]) -> int:
        calls.append("middle")
        return values[0]

    def some(values: list[int]) -> list[bool]:
        calls.append("some")
        return [True] * len(values)

    cep.register_function("few", Few(), returns="int")
    cep.function(three)
    cep.function(yes)
    cep.aggregate(Summed)
    cep.aggregate(middle)
    cep.window(some)
    return cep


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A file with some bytes changed, removed or added; half of them with a checksum that fits."""
    head, body = data.split(b"\n", 1)
    repaired = draw.random() < 0.5
    text, packed = (bytearray(zlib.decompress(body)), True) if draw.random() < 0.3 else (bytearray(body), False)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, size = draw.randrange(len(text) or 1), draw.choice((1, 1, 3, 200))
        text[at : at + size] = draw.choice((b"", draw.randbytes(1), draw.randbytes(size), b"0" * size))
    body = zlib.compress(bytes(text)) if packed else bytes(text)
    return file_of_body(body) if repaired or packed else head + b"\n" + body


@pytest.mark.histories
def test_loading_calls_no_registered_function(tmp_path: Path) -> None:
    path, calls = tmp_path / "functions.cep", list[str]()
    cep = calling(calls)
    cep.run(FUNCTIONS)
    for number in range(12):
        cep.send("E", k="ab"[number % 2], x=number)
        cep.advance(by="1 sec")
    assert {"three", "few", "yes", "new", "enter", "leave", "value", "middle", "some"} <= set(calls)
    cep.save(path, feeds=True)
    data, document = path.read_bytes(), unpack_document(path.read_bytes())
    draw = random.Random(11)
    other = calling(calls)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts: dict[tuple[str, bool], int] = {}
    for kind, count in (("saved", 1), ("forged", FORGED), ("damaged", DAMAGED)):
        for number in range(count):
            written = pack_document(forged(document, draw)) if kind == "forged" else data
            path.write_bytes(damaged(data, draw) if kind == "damaged" else written)
            calls.clear()
            try:
                other.load(path)
                loaded = True
            except SnapshotError:
                loaded = False
            counts[kind, loaded] = counts.get((kind, loaded), 0) + 1
            assert not calls, (kind, number, calls[:5])
    print(counts, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, "MiB")
    assert counts["saved", True] == 1
    assert counts["forged", False] > FORGED // 2
    assert counts["damaged", False] > DAMAGED * 0.9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 300 << 10


def test_a_loaded_workbench_continues_with_the_functions(tmp_path: Path) -> None:
    calls: list[str] = []
    cep = calling(calls)
    cep.run(FUNCTIONS)
    cep.send("E", k="a", x=1)
    cep.save(tmp_path / "functions.cep")
    other = calling([])
    other.load(tmp_path / "functions.cep")
    for workbench in (cep, other):
        for number in range(9):
            workbench.send("E", k="ab"[number % 2], x=number)
            workbench.advance(by="1 sec")
    for name in cep.runtime.statements:
        assert other.runtime.iterate(name) == cep.runtime.iterate(name), name
        assert other.runtime.variables["W"].value == cep.runtime.variables["W"].value
