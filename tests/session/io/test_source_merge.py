"""A replay's order with sequence numbers: (time, sequence, order of the types), whatever the sources are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.errors import EventError, UsageError
from cepbook.session.io import frame_source, sources

BOTH = """
    @name('q') insert into Both select 'a' as src, n from A; @name('r') insert into Both select 'b' as src, n from B;
    @name('all') select src, n from Both
"""


def bench() -> Workbench:
    cep = Workbench()
    cep.run(f"create schema A(n int); create schema B(n int); {BOTH}")
    return cep


def replayed(events: dict[str, Any], **options: Any) -> list[tuple[str, int]]:
    cep = bench()
    cep.replay(events, time="ts", **options).run()
    frame = cep.changes("all")
    return list(zip(frame["src"], frame["n"], strict=True))


def events(seed: int) -> tuple[dict[str, list[dict[str, int]]], list[tuple[str, int]]]:
    """Random events of two types, many of one time, sorted; and their total order."""
    rng = random.Random(seed)
    rows_by_type: dict[str, list[dict[str, int]]] = {}
    for name in "AB":
        keys = rng.sample([(t, s) for t in range(6) for s in range(8)], 20)
        rows_by_type[name] = [{"ts": t, "seq": s, "n": i} for i, (t, s) in enumerate(sorted(keys))]
    order = sorted((e["ts"], e["seq"], name, e["n"]) for name in "AB" for e in rows_by_type[name])
    return rows_by_type, [(name.lower(), n) for _, _, name, n in order]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_time_sequence_type(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_source, "FRAME_CHUNK", 1 + seed % 7)  # ties across the ends of chunks
    monkeypatch.setattr(sources, "EVENT_CHUNK", 1 + seed % 5)
    rows_by_type, order = events(seed)
    frames = {name: pd.DataFrame(rows) for name, rows in rows_by_type.items()}
    shuffled = {name: frame.sample(frac=1, random_state=seed) for name, frame in frames.items()}
    tables = {name: pa.Table.from_pandas(frame) for name, frame in frames.items()}
    mixed = {"A": iter(rows_by_type["A"]), "B": shuffled["B"]}
    for source in (rows_by_type, frames, shuffled, tables, mixed):
        assert replayed(source, sequence="seq") == order
    numbers = {"A": "seq", "B": "number"}
    assert replayed(frames | {"B": frames["B"].rename(columns={"seq": "number"})}, sequence=numbers) == order
    backwards = sorted(order, key=lambda e: e[0] == "a")
    assert set(backwards) == set(order)


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (lambda f: f.assign(seq=1), {}, EventError, "two events of A at 00:00:00.001 have the sequence number 1"),
        (lambda f: f.assign(seq=[1, None, 3]), {}, EventError, "a sequence is whole numbers without gaps"),
        (lambda f: f.assign(seq=[0.5, 1.0, 2.0]), {}, EventError, "a sequence is whole numbers"),
        (lambda f: f.drop(columns="seq"), {}, EventError, "has no sequence column `seq`"),
        (lambda f: f[::-1], {"sort": False}, EventError, "is not in the order of time and sequence"),
        (lambda f: f.assign(seq=1).to_dict("records"), {}, EventError, "have the sequence number 1: their order"),
        (lambda f: f[::-1].to_dict("records"), {}, EventError, "row 1 of `A`: the sequence number goes back"),
        (lambda f: f.drop(columns="seq").to_dict("records"), {}, EventError, "`seq` is a whole number, not None"),
        (lambda f: f, {"sequence": {"B": "seq"}}, UsageError, "sequence= names no column for `A`"),
    ],
)  # fmt: skip
def test_bad_sequences(change: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    frame = pd.DataFrame({"ts": 1, "n": [1, 2, 3], "seq": [1, 2, 3]})
    with pytest.raises(error, match=message):
        bench().replay({"A": change(frame)}, time="ts", **({"sequence": "seq"} | options)).run()


def test_travelling_back_keeps_the_sequence() -> None:
    rows_by_type, order = events(3)
    cep = bench()
    replay = cep.replay(rows_by_type, time="ts", sequence="seq", keep=5)
    replay.run()
    twin = replay.at(3)
    twin.replay(
        {n: [e for e in rows if e["ts"] > 3] for n, rows in rows_by_type.items()}, time="ts", sequence="seq"
    ).run()
    frame = twin.changes("all")
    rest = list(zip(frame["src"], frame["n"], strict=True))
    assert rest and rest == order[-len(rest) :]


def test_types_from_arrow_tables_and_parquet_files(tmp_path: Any) -> None:
    from pyarrow import parquet

    struct = pa.struct({"a": pa.int32(), "b": pa.list_(pa.float64())})
    table = pa.table(
        {
            "ts": pa.array([1, 2], pa.timestamp("ms")),
            "big": pa.array([2**53 + 1, None], pa.int64()),
            "small": pa.array([1, 2], pa.int8()),
            "word": pa.array(["x", None]).dictionary_encode(),
            "part": pa.array([{"a": 1, "b": [1.5, None]}, None], struct),
            "more": pa.array([[("k", 5)], None], pa.map_(pa.string(), pa.int32())),
        }
    )  # fmt: skip
    path = tmp_path / "events.parquet"
    parquet.write_table(table, path)
    for source in (table, path, str(path)):
        cep = Workbench()
        event_type = cep.define("E", source, time="ts")
        assert {n: str(of) for n, of in event_type.properties.items()} == {
            "ts": "long", "big": "long", "small": "byte", "word": "string", "part": "E_part", "more": "map",
        }  # fmt: skip
        cep.run("@name('q') select ts, big, part.a as a, part.b[0] as b, more.get('k') as k, word from E")
        cep.replay({"E": source}).run()
        deliveries = cep.feed("q").snapshot()
        assert deliveries[0].insert == [{"ts": 1, "big": 2**53 + 1, "a": 1, "b": 1.5, "k": 5, "word": "x"}]
        assert deliveries[1].insert == [{"ts": 2, "big": None, "a": None, "b": None, "k": None, "word": None}]
    with pytest.raises(UsageError, match="there is no file"):
        Workbench().define("E", tmp_path / "none.parquet")
    assert str(Workbench().define("E", pa.table({"t": pa.array([1], pa.time64("us"))})).properties["t"]) == "localtime"
    with pytest.raises(UsageError, match="column `t` has no EPL type: binary"):
        Workbench().define("E", pa.table({"t": pa.array([b""], pa.binary())}))
    with pytest.raises(UsageError, match="the column `t` twice"):
        Workbench().define("E", pa.table([pa.array([1])] * 2, names=["t", "t"]))


def test_the_type_of_a_function_is_resolved_when_it_is_registered() -> None:
    cep = Workbench()
    cep.register_function("half", lambda n: n // 2, returns="long")
    cep.register_function("third", lambda n: n / 3, returns=float)
    cep.run("create schema A(n long); @name('q') select half(n) as h, third(n) as t from A")
    assert {n: str(of) for n, of in cep.runtime.statements["q"].output_type.properties.items()} == {
        "h": "long", "t": "double",
    }  # fmt: skip
    with pytest.raises(UsageError, match="there is no type `lnog`"):
        cep.register_function("other", lambda n: n, returns="lnog")


def test_numbers_of_a_sequence_may_be_numpy() -> None:
    rows = [{"ts": 1, "n": 1, "seq": np.int64(2)}, {"ts": 1, "n": 2, "seq": np.int64(3)}]
    assert replayed({"A": rows}, sequence="seq") == [("a", 1), ("a", 2)]
