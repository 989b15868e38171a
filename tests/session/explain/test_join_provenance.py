"""Which events made the rows of a join."""

from __future__ import annotations

from cepbook import Workbench
from cepbook.session.inspect.match_record import MatchRecord
from cepbook.widgets.live_view.view_source import WorkbenchSource


def test_a_join_tells_which_events_made_a_row() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(id string, n int); create schema B(id string, m int); create window W#keepall as B;"
        "insert into W select * from B;"
        "@name('outer') select a.n as n, b.m as m from A#length(2) as a left outer join B#keepall as b on a.id = b.id;"
        "@name('stored') select a.n as n from A#length(2) as a, W where a.id = W.id;"
        "@name('self') select x.n as n from A#length(2), A#lastevent as x where x.n > 0"
    )
    sources = {name: WorkbenchSource(cep, name) for name in ("outer", "stored", "self")}
    assert all(source.traced and source.tags is None for source in sources.values())
    for source in sources.values():
        source.watch(True)
    cep.send("A", id="x", n=1)
    cep.send("B", id="x", m=5)
    cep.send("A", id="x", n=2)

    def matches(name: str, delivery: int) -> list[object]:
        joined = sources[name].matches_of(delivery)
        assert joined is not None and joined.total == len(joined.matches)
        return [dict(match) for match in joined.matches]

    assert matches("outer", 0) == [{"a": {"n": 1, "id": "x"}, "b": None}]
    assert matches("outer", 1) == [{"a": {"n": 1, "id": "x"}, "b": {"m": 5, "id": "x"}}]
    assert matches("outer", 2) == [{"a": {"n": 2, "id": "x"}, "b": {"m": 5, "id": "x"}}]
    assert [[*match] for match in matches("stored", 0)] == [["a", "W"]]
    assert [[*match] for match in matches("self", 0)] == [["A", "x"]]
    for source in sources.values():
        source.watch(False)
    cep.send("A", id="x", n=3)
    assert sources["outer"].matches_of(3) is None


def test_without_a_look_nothing_is_kept_and_statements_without_several_streams_have_nothing_to_tell() -> None:
    cep = Workbench()
    cep.run("create schema A(id string, n int); @name('plain') select * from A#keepall")
    assert not WorkbenchSource(cep, "plain").traced
    record = MatchRecord(cep.runtime.statement("plain"), cep.feed("plain"))
    record.begin()
    cep.send("A", id="x", n=1)
    joined = record.of(0)
    assert joined is not None and joined.total == 0
    record.end()
