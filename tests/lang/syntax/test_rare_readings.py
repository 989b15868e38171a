"""Readings that are rarely meant: what is marked, what the hint says, and what is left alone."""

from __future__ import annotations

import re

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.rare_readings import RARELY_MEANT, rare_readings

SCHEMA = """create schema Tick(symbol string, price double, `order id` string);
create schema Login(user string); create schema Logout(user string)"""

# (EPL, what is marked, a part of the hint, the line that it leads to)
MEANT_OTHERWISE = [
    ("select * from Tick where symbol = null", "symbol = null", "write `symbol is null`",
     "select * from Tick where symbol is null"),
    ("select * from Tick(null != price)", "null != price", "write `price is not null`",
     "select * from Tick(price is not null)"),
    ("select * from pattern [every a=Tick -> not Tick(symbol = 'x')]", "not Tick(symbol = 'x')",
     "(timer:interval(1 min) and not Tick(symbol = 'x'))",
     "select * from pattern [every a=Tick -> (timer:interval(1 min) and not Tick(symbol = 'x'))]"),
    ("select * from pattern [a=Tick -> b=Tick]", "a=Tick -> b=Tick", "pattern [every a=Tick -> b=Tick]",
     "select * from pattern [every a=Tick -> b=Tick]"),
    ("select * from pattern [every (every timer:interval(1 sec))]", "every (every timer:interval(1 sec))",
     "one is enough: every timer:interval(1 sec)", "select * from pattern [every timer:interval(1 sec)]"),
    ("@DiscardPartialsOnMatch select * from pattern [every a=Tick -> b=Tick]", "@DiscardPartialsOnMatch",
     "from pattern @DiscardPartialsOnMatch [ … ]",
     "select * from pattern @DiscardPartialsOnMatch [every a=Tick -> b=Tick]"),
    ('select "symbol", price from Tick', '"symbol"', "write `symbol`", "select symbol, price from Tick"),
    ('select "order id" from Tick', '"order id"', "in backticks: `order id`", "select `order id` from Tick"),
    ('select count(*) from Tick group by "symbol"', '"symbol"', "write `symbol`",
     "select count(*) from Tick group by symbol"),
    ("select symbol from Tick limit 5", "limit 5", "#firstlength(5)", "select symbol from Tick#firstlength(5)"),
    ("select price -- comment\nfrom Tick where price > 1", None, None, None),
    ("select price -- price\nfrom Tick", "--", "a comment begins with //", "select price // price\nfrom Tick"),
    ("select percentile(price, 0.95) as p from Tick", "0.95", "write `95`",
     "select percentile(price, 95) as p from Tick"),
    ("select * from Tick where symbol = ':x'", "':x'", "write `:x` without quotes", None),
    ("create context C initiated by Login as l terminated by Logout", "Logout", "Logout(id = l.id)",
     "create context C initiated by Login as l terminated by Logout(user = l.user)"),
    ("create context C initiated by Login terminated by Logout(user = 'x')", "Logout(user = 'x')", "as begun",
     "create context C initiated by Login as begun terminated by Logout(user = begun.user)"),
    ("create context D start (0,0,*,*,*) end (0,0,*,*,*)", "start (0,0,*,*,*) end (0,0,*,*,*)",
     "write `initiated by (0,0,*,*,*) terminated by (0,0,*,*,*)`",
     "create context D initiated by (0,0,*,*,*) terminated by (0,0,*,*,*)"),
]  # fmt: skip

MEANT = [
    "select * from Tick where symbol is null",
    "select * from pattern [every a=Tick -> b=Tick]",
    "select * from pattern [timer:interval(10)]",
    "select * from pattern [every (Tick -> every Tick)]",
    "select * from pattern [every every-distinct(a.symbol) a=Tick]",
    "select 'fixed' as kind, symbol from Tick",
    'select "fixed" as kind from Tick where symbol = "A"',
    "select * from Tick#length_batch(5) limit 5",
    "select * from Tick output snapshot every 5 sec limit 5",
    "select 5 - -3 as x from Tick",
    "create context D start (0, 9, *, *, *) end (0, 17, *, *, *)",
    "create context C initiated by Login as l terminated after 5 min",
    "create context C initiated by Login as l terminated by Logout(user = l.user)",
    "context C select * from pattern [a=Tick]",
    "select frm from",
]


@pytest.mark.parametrize(("epl", "marked", "hint", "better"), MEANT_OTHERWISE)
def test_rarely_meant(epl: str, marked: str | None, hint: str | None, better: str | None) -> None:
    (problem, *more) = rare_readings(epl)
    assert problem.code == RARELY_MEANT and not more
    if marked is not None and hint is not None:
        assert epl[problem.span.start : problem.span.end] == marked
        assert problem.hint is not None and hint in problem.hint
    if better is not None:
        runtime = Runtime()
        runtime.deploy(SCHEMA)
        runtime.deploy(better)
        assert rare_readings(re.sub("//.*", "", better)) == ()


@pytest.mark.parametrize("epl", MEANT)
def test_left_alone(epl: str) -> None:
    assert rare_readings(epl) == ()


def test_a_partition_for_every_day() -> None:
    """What the hint writes covers each day, the context with start and end every second one."""
    days = {}
    for name, conditions in (("all", "initiated by {c} terminated by {c}"), ("some", "start {c} end {c}")):
        runtime = Runtime()
        runtime.deploy(f"create schema E(x int); create context D {conditions.format(c='(0, 0, *, *, *)')};")
        runtime.deploy("@name('out') context D select count(*) as n from E output snapshot when terminated")
        rows: list[object] = []
        runtime.statement("out").add_listener(lambda delta, rows=rows: rows.extend(delta.insert or ()))
        for day in range(6):
            runtime.advance(day * 86_400_000 + 1, stepping=True)
            runtime.send("E", {"x": 1})
        runtime.advance(7 * 86_400_000, stepping=True)
        days[name] = len(rows)
    assert days == {"all": 6, "some": 4}  # from day 1 on; from day 0 on, every second one
