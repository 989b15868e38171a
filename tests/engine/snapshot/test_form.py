"""Files that are damaged, of other versions or of other programs are refused, or load as what was saved."""

from __future__ import annotations

import random
import re
import zlib
from typing import Any

import pytest

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.snapshot.file_format import pack_document, unpack_document
from cepbook.errors import SnapshotError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import DOUBLE, INT, LONG, STRING, Type, array_of
from tests.engine.snapshot.saving import again

EPL = """
create schema Tick(symbol string, price double);
create variable int many = 2;
create context Each partition by symbol from Tick;
@name('kept') select irstream symbol, avg(price) as mean from Tick#length(many) group by symbol;
@name('each') context Each select count(*) as n, twice(price) as d from Tick#time(10 sec) output last every 3 sec;
@name('pairs') select a.price as p, b.price as q from pattern [every a=Tick -> b=Tick(symbol = a.symbol)]
"""


def twice(value: Any) -> Any:
    return None if value is None else 2 * value


def filled() -> Runtime:
    runtime = Runtime(Config(integer_division=True), start=1000)
    runtime.register_function("twice", twice, returns=DOUBLE)
    properties = {"a": array_of(INT), "s": Type("struct", fields=(("x", STRING),)), "at": LONG}
    runtime.define(EventType("Own", properties, (), "a", times=frozenset({"at"})))
    runtime.define_variable("given", array_of(STRING), ["x", None])
    runtime.deploy(EPL, deployment_id="main")
    for i in range(9):
        runtime.send("Tick", {"symbol": "abc"[i % 3], "price": i / 2}, at=1000 + 500 * i)
    return runtime


def seen(runtime: Runtime) -> list[Any]:
    """What can be seen of a runtime and of a while later."""
    found: list[Any] = [runtime.now, runtime.variables["given"].value, runtime.config, runtime.catalog.event_types]
    for name in runtime.statements:
        runtime.statement(name).add_listener(lambda delta: found.append(delta))
    for i in range(9):
        runtime.send("Tick", {"symbol": "cab"[i % 3], "price": i / 4}, at=6000 + 700 * i)
    return [*found, *(runtime.iterate(name) for name in runtime.statements), runtime.next_due]


def test_goes_on_as_it_would_have() -> None:
    runtime = filled()
    restored = again(runtime)
    assert restored.catalog.event_types == runtime.catalog.event_types
    assert repr(seen(restored)) == repr(seen(runtime))


def test_names_of_statements_with_dots_and_backslashes() -> None:
    """`a.timed` was also the path of the timers of `a`, and one of the two lost its state."""
    runtime, names = Runtime(), ["a", "a.timed", "a\\"]
    runtime.deploy("create schema Tick(symbol string, price double)")
    for name in names:
        written = name.replace("\\", "\\\\")
        runtime.deploy(f"@name('{written}') select count(*) as n from Tick#time(5 sec)")
    assert list(runtime.statements) == names
    runtime.send("Tick", {"symbol": "a", "price": 1.0})
    restored = again(runtime)
    restored.send("Tick", {"symbol": "a", "price": 1.0})
    assert [restored.iterate(name) for name in names] == [[{"n": 2}]] * 3


def test_any_changed_byte_is_refused() -> None:
    data = filled().snapshot()
    draw = random.Random(1)
    for place in [*range(100), *draw.sample(range(100, len(data)), 300)]:
        for bit in (1, 128) if place >= 100 else (1, 2, 4, 8, 16, 32, 64, 128):
            changed = bytearray(data)
            changed[place] ^= bit
            with pytest.raises(SnapshotError):
                Runtime.restored(bytes(changed), {"twice": twice})


def test_what_is_cut_off_or_added_is_refused() -> None:
    data = filled().snapshot()
    for size in [*range(120), *range(120, len(data), 97), len(data) - 1]:
        with pytest.raises(SnapshotError):
            Runtime.restored(data[:size], {"twice": twice})
    with pytest.raises(SnapshotError, match="checksum"):
        Runtime.restored(data + b"x", {"twice": twice})


def test_another_format() -> None:
    data = re.sub(rb"snapshot 5 ", b"snapshot 7 ", filled().snapshot(), count=1)
    with pytest.raises(SnapshotError, match="format 7, and this version of cepbook reads format 5"):
        Runtime.restored(data, {"twice": twice})
    for other in (b"", b"{}", zlib.compress(b"{}"), b"\x80\x04N."):
        with pytest.raises(SnapshotError, match="not a cepbook snapshot"):
            unpack_document(other)


def test_functions_must_be_registered() -> None:
    with pytest.raises(SnapshotError, match="not registered: `twice`"):
        Runtime.restored(filled().snapshot(), {})


def test_another_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a statement fits the code that it was saved with."""
    data = filled().snapshot()
    monkeypatch.setattr(SourceWriter, "text", property(lambda self: "\n".join([*self.lines, "# new"]) + "\n"))
    with pytest.raises(SnapshotError, match="code for these modules is another one"):
        Runtime.restored(data, {"twice": twice})


@pytest.mark.parametrize("changed", [r"length\(many\)", "Tick#"])
def test_another_module_text_is_refused(changed: str) -> None:
    document = unpack_document(filled().snapshot())
    document["modules"][0][1] = re.sub(
        changed, lambda m: m[0] + "#lastevent" * ("many" in m[0]), document["modules"][0][1]
    )
    document["modules"][0][1] = document["modules"][0][1].replace("length(many)", "length(3)")
    with pytest.raises(SnapshotError, match="code for these modules"):
        Runtime.restored(pack_document(document), {"twice": twice})


@pytest.mark.histories
def test_tables_that_make_no_sense() -> None:
    """A file that somebody wrote by hand: refused, whatever is wrong with it."""
    draw = random.Random(2)
    good = filled().snapshot()
    for _ in range(200):
        document = unpack_document(good)
        nodes = document["nodes"]
        node = draw.choice(nodes)
        node[draw.randrange(len(node))] = draw.choice([[len(nodes)], [0], None, "x", [1, 2], {}, 10**9, "state"])
        try:
            Runtime.restored(pack_document(document), {"twice": twice})
        except SnapshotError:
            continue


def test_not_within_an_event() -> None:
    runtime = filled()
    found: list[Exception] = []

    def save(delta: Any) -> None:
        with pytest.raises(SnapshotError, match="between two events") as raised:
            runtime.snapshot()
        found.append(raised.value)

    runtime.statement("kept").add_listener(save)
    runtime.send("Tick", {"symbol": "a", "price": 1.0})
    assert found and runtime.snapshot()


def test_a_value_that_cannot_be_saved() -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(o object); @name('keeps') select o from E#keepall")
    runtime.send("E", {"o": object()})
    with pytest.raises(SnapshotError, match=r"statement `keeps` holds a value of type builtins\.object"):
        runtime.snapshot()
