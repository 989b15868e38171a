# ruff: noqa: E501 - queries stand as in the document
"""Running queries: those of the document, settings, and what is done to a text."""

from __future__ import annotations

import random
import re

import pytest

from cepbook.dialects.registry import DIALECTS
from cepbook.errors import CompileError, ParseError, UsageError
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES, CYCLE_WINDOWS
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA
from cepbook.session import Workbench

# The queries of StreamCruncher - Basics, with the keywords that its text has lost
DOCUMENT = {
    "denial": """select src_ip_address, recent_requests, total_requests
from request_events (partition by src_ip_address store last 30 minutes
   with pinned count(id) as recent_requests, count(id) entrance only as total_requests) as denial_attack_check
where denial_attack_check.$row_status is new and recent_requests > 75;""",
    "filtered": """select a, b, c from stream1 (partition by a, b, c store last 30 minutes where a > 10 and b = c) as filtered_stream
where a > 15 and filtered_stream.$row_status is not dead;""",
    "list": """select a from stream1 (partition store last 30 minutes where a > b and b in (100, 120, 140)) as filtered_stream where a > 1;""",
    "routing": """select customer_id from orders2 (partition store last 30 minutes
  where customer_id in (select customer_id from priority_customers)) as filtered_stream where filtered_stream.$row_status is new;""",
    "chained": """select country, num_skus, avg_qty
from test (partition by country store last 5 seconds with count(item_sku) as num_skus, avg(item_qty) as avg_qty) to
 (partition by store last 5 seconds where $row_status is new and (num_skus >= 10 and num_skus <= 30)) as testStr
where testStr.$row_status is new;""",
    "top": """select order_country, order_state, order_category, order_item_sku, order_total_qty
from order_events
(partition by order_country, order_state, order_category, order_item_sku
   store last 30 days with sum(order_quantity) as order_total_qty)
(partition by order_country, order_state,
   store highest 5 using order_total_qty
   with update group order_country, order_state, order_category, order_item_sku where $row_status is new) as order_events
where order_events.$row_status is not dead;""",
    "stages": """select stg1_id, stg2_id, stg3_id, priority,
   case when stg2_id is null and stg3_id is not null then 'Stage 2 missing!'
        when stg2_id is not null and stg3_id is null then 'Stage 3 missing!'
        when stg2_id is null and stg3_id is null then 'Stage 2 & 3 missing!'
        else 'All OK!' end as comment
from alert one_event.event_1_id as stg1_id, two_event.event_2_id as stg2_id, three_event.event_3_id as stg3_id, one_event.event_priority as priority
using stg1_event (partition store last 5 seconds where priority > 5) as one_event correlate on event_1_id,
      stg2_event (partition store last 5 seconds where priority > 5) as two_event correlate on event_2_id,
      stg3_event (partition store last 5 seconds where priority > 5) as three_event correlate on event_3_id
when present(one_event and two_event and not three_event) or
     present(one_event and not two_event and three_event) or
     present(one_event and two_event and three_event)
where priority < 7.5;""",
    "weights": """select item_sku from sales (partition store last 10 where item_sku in (select item_sku from priority_item)) as order_events
where order_events.$row_status is dead;""",
    "police": """select veh_events.state, veh_events.county, previous_veh_events.state, previous_veh_events.county, veh_events.veh_make
from veh_report (partition by state, county store last 30 minutes) as veh_events, self#veh_events as previous_veh_events
where veh_events.$row_status is new and previous_veh_events.$row_status is not dead
  and veh_events.county != previous_veh_events.county and veh_events.veh_make = previous_veh_events.veh_make
  and veh_events.veh_year = previous_veh_events.veh_year and veh_events.veh_color = previous_veh_events.veh_color
order by previous_veh_events.report_time desc;""",
}
SCHEMAS = """create schema request_events(id long, src_ip_address string);
create schema stream1(a int, b int, c int);
create schema orders2(customer_id long);
create schema test(country string, item_sku string, item_qty int);
create schema order_events(order_country string, order_state string, order_category string, order_item_sku string, order_quantity int);
create schema stg1_event(event_1_id long, priority double, event_priority double);
create schema stg2_event(event_2_id long, priority double);
create schema stg3_event(event_3_id long, priority double);
create schema sales(item_sku string);
create schema veh_report(state string, county string, veh_make string, veh_year int, veh_color string, report_time long);
create window priority_customers#keepall as (customer_id long);
create window priority_item#keepall as (item_sku string)"""


def run(workbench: Workbench, text: str, **settings: object) -> None:
    workbench.run(text, dialect="streamcruncher", name="q", **settings)


@pytest.mark.parametrize("name", DOCUMENT)
def test_queries_of_the_document_run(name: str) -> None:
    workbench = Workbench()
    workbench.run(SCHEMAS)
    run(workbench, DOCUMENT[name])
    for stage in ("ast", "plan", "rewritten", "steps", "python", "coverage", "epl"):
        assert workbench.explain("q", stage)


def test_reports_of_another_county() -> None:
    workbench = Workbench()
    workbench.run(SCHEMAS)
    run(workbench, DOCUMENT["police"])
    for county in "AAB":
        workbench.send("veh_report", state="S", county=county, veh_make="f", veh_year=1, veh_color="r", report_time=5)
    assert [tuple(row.values()) for row in workbench.iterate("q")] == [("S", "B", "S", "A", "f")] * 2


@pytest.mark.parametrize("row", [*CYCLE_WINDOWS.values(), *CYCLE_AGGREGATES.values()], ids=lambda row: row.name)
def test_every_row_has_a_doc_and_an_example_that_runs(row: object) -> None:
    workbench = Workbench()
    workbench.run(EXAMPLE_SCHEMA)
    run(workbench, row.example)  # type: ignore[attr-defined]
    assert row.doc  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"weights": {"s": -1}}, "the weight of `s`"),
        ({"weights": {"ss": 1}}, "`ss`, which is not a stream"),
        ({"weights": 3}, "a value for each stream"),
        ({"schedule": {"policy": "later"}}, "`schedule` is not understood"),
        ({"schedule": {"policy": "fixed", "every_ms": 0}}, "`schedule` is not understood"),
        ({"timestamp": {"s": "nothing"}}, "no column `nothing`"),
        ({"timestamp": {"s": "k"}}, "in milliseconds, found string"),
        ({"sliding": "all"}, "`sliding` is"),
        ({"seed": "x"}, "`seed` is a whole number"),
        ({"speed": 3}, "no setting `speed`"),
        ({"tables": [1]}, "a table for each name"),
        ({"tables": {"t": 3}}, "is not understood"),
        ({"tables": {"t": {"columns": ["a"], "rows": [[1, 2]]}}}, "found the row"),
        ({"tables": {"t": {"columns": ["a", "a"], "rows": []}}}, "a column twice"),
        ({"tables": {"t": {"columns": "name", "rows": []}}}, "is not understood"),
        ({"tables": {"t": {"columns": ["a"], "rows": None}}}, "is not understood"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], fact: str) -> None:
    workbench = Workbench()
    workbench.run("create schema s(id long, k string, v double)")
    with pytest.raises(UsageError, match=re.escape(fact)):
        run(workbench, "select id from s (partition store last 3) as w", **settings)
    assert "q" not in workbench.runtime.statements


@pytest.mark.parametrize("others", [[], [["b", 1.5]]])
def test_whole_numbers_beyond_a_long_are_objects(others: list[list[object]]) -> None:
    workbench = Workbench()
    workbench.run("create schema s(id long, k string)")
    rows = [["a", 2**1070], *others]
    query = "select w.id as id from s (partition store last 3) as w, known where w.k = known.k"
    run(workbench, query, tables={"known": {"columns": ["k", "n"], "rows": rows}})
    assert str(workbench.runtime.catalog.event_types["known"].properties["n"]) == "object"
    assert [[row["k"], row["n"]] for row in workbench.iterate("known")] == rows


def test_a_table_may_be_there_already() -> None:
    workbench = Workbench()
    workbench.run("create schema s(id long, k string); create window known#keepall as (k string)")
    query = "select id from s (partition store last 3 where k in (select k from known)) as w where w.$row_status is new"
    run(workbench, query, tables={"known": [{"k": "a"}]})
    workbench.send("s", id=1, k="a")
    workbench.query("insert into known(k) values ('b')")
    workbench.send("s", id=2, k="b")
    assert list(workbench.changes("q")["id"]) == [1, 2]
    with pytest.raises(UsageError, match="has the columns"):
        run(workbench, query, tables={"known": [{"other": "a"}]})


def test_nothing_is_no_query() -> None:
    for text in ("", ";", "-- nothing"):
        with pytest.raises(ParseError):
            run(Workbench(), text)


def test_mutated_queries_give_diagnostics() -> None:
    chance = random.Random(11)
    workbench = Workbench()
    workbench.run(SCHEMAS)
    texts = list(DOCUMENT.values())
    words = sorted({word for text in texts for word in re.findall(r"\$?\w+|[^\s\w]", text)})
    for _ in range(300):
        parts = re.findall(r"\$?\w+|'[^']*'|[^\s\w]|\s+", chance.choice(texts))
        for _ in range(chance.choice([1, 1, 2, 3])):
            at = chance.randrange(len(parts))
            parts[at : at + chance.randrange(2)] = [chance.choice(["", " ", chance.choice(words)])]
        try:
            run(workbench, "".join(parts))
        except CompileError as error:
            assert error.origin == "streamcruncher"
            assert all(found.message and found.span.end <= len("".join(parts)) for found in error.diagnostics)


def test_help_knows_the_windows_and_aggregates() -> None:
    keywords = DIALECTS["streamcruncher"].keywords
    assert {"last", "latest", "random", "highest", "lowest", "geomean", "kurtosis"} <= set(keywords)


def test_nearest_epl_runs_and_says_what_differs() -> None:
    workbench = Workbench()
    workbench.run("create schema s(id long, k string, v double)")
    for window, wanted in (
        ("last 3", "#length(3)"),
        ("last 5 seconds", "#time(5000 msec)"),
        ("last 5 seconds max 2", "#time(5000 msec)#length(2)"),
        ("latest 4", "#lastevent"),
        ("lowest 2 using v", "#sort(2, v asc)"),
        ("highest 2 using v with update group id", "#rank(id, 2, v desc)"),
    ):
        run(workbench, f"select id from s (partition by k store {window} where v > 1) as w where w.$row_status is dead")
        epl = workbench.explain("q", "epl")
        assert wanted in epl and "rstream" in epl and "#groupwin(k)" in epl
        workbench.run(epl.replace("'q'", "'near'"))
    run(workbench, "select id from s (partition store random 3) as w where w.$row_status is new", seed=4)
    assert "#random(3, 4L)" in workbench.explain("q", "epl")
    for none in ("by k store random 3", "store last 3 with count(id) as c"):
        run(workbench, f"select * from s (partition {none}) as w")
        assert workbench.explain("q", "epl").startswith("// no EPL says what `q` does")
