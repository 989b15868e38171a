"""Saved workbenches with the right checksum and wrong contents: refused, and nothing is replaced.

`CEPBOOK_FORGED` is the number of forged files.
"""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.snapshot.file_format import MAGIC, VERSION, pack_document, unpack_document
from cepbook.errors import SnapshotError, UsageError

FORGED = int(os.environ.get("CEPBOOK_FORGED", "100"))
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
    draw, refused = random.Random(7), 0
    for number in range(FORGED):
        path.write_bytes(pack_document(forged(document, draw)))
        cep = filled("create schema E(k string, x int); @name('sums') select sum(x) as s from E;")
        before = state(cep)
        try:
            cep.load(path)
        except SnapshotError as error:
            refused += 1
            assert "Traceback" not in str(error)
            assert state(cep) == before, number
    assert refused > FORGED // 2


def file_of(text: bytes) -> bytes:
    body = zlib.compress(text, 9)
    return b"%s%d %s\n" % (MAGIC, VERSION, sha256(body).hexdigest().encode()) + body


BOMBS = {
    "a long text": b'{"modules": "' + b"x" * 10**8 + b'"}',
    "many lists": b"[" + b"[]," * (40 * 10**6) + b"0]",
    "few lists": b'{"modules": [' + b"[]," * (2 * 10**6) + b"0]}",
    "deep lists": b"[" * 10**6 + b"]" * 10**6,
    "no object": b"[1, 2]",
    "deep types": b'{"modules": [], "types": ' + b"[" * 900 + b"]" * 900 + b"}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_fill_the_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.cep"
    path.write_bytes(file_of(BOMBS[name]))
    program = (
        "import resource, sys\nfrom cepbook import Workbench\nfrom cepbook.errors import SnapshotError\n"
        "cep = Workbench()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    cep.load(sys.argv[1])\n"
        "except SnapshotError as error:\n    assert 'damaged' in str(error) or 'setting' in str(error), error\n"
        "else:\n    raise SystemExit('loaded')\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 300, f"{done.stdout} MiB"


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
