"""Random statements: any source filter, windows, aggregates, grouping, output clause, selector, context, variables.

Most of what is drawn compiles; the rest is refused with a diagnostic, and which it is does not matter here.
"""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from tests.engine.histories import GAPS, Event

SCHEMA = "create schema E(k string, g int, x int, n long, d double, t long, b boolean)"
VARIABLES = (
    "create variable int N = 3; create variable long P = 1; create variable boolean GO = false;"
    "create variable double LIM = 1.5"
)
KEYS = "k|g|x|k, g|x % 2|b"
NUMBERS = "x|n|d|x + 1|d * 2|n - x|case when x > 1 then d else x end|coalesce(d, 0)"
CONDITIONS = (
    "x > 1|d is not null|k = 'a'|k in ('a', 'b')|x between 0 and 2|b|not b|n != 1|x / n > 0.5|x > LIM"
    "|g = 1 or x < 0|k like 'a%'|k is null|d > n"
)
SIZES = "1|2|3|5|N|1 + 1"
PERIODS = "1|0.5|1 sec|500 msec|2 sec 500 msec|3|P|1 minute|P sec|1 month"
TIMESTAMPS = "t|t|coalesce(t, 0L)|current_timestamp"
FLOW = "||, 'FORCE_UPDATE'|, 'START_EAGER'|, 'force_update, start_eager'"
EXPR = (
    "current_count <= 3|current_count <= N|sum(x) < 4|newest_timestamp - oldest_timestamp < 1500"
    "|newest_event.k = oldest_event.k|x > 0|not GO|expired_count < 2|max(d) > 1 or count(*) < 3|d is null"
)
EXPR_BATCH = (
    "current_count >= 3|current_count >= N|sum(x) > 4|newest_timestamp - oldest_timestamp > 1500"
    "|newest_event.k != oldest_event.k|x > 2|GO|avg(d) > 1"
)
# {s} a size, {p} a period, {q} one that may be zero, {t} a timestamp, {k} keys, {c} criteria, {f} flow control
WINDOWS = (
    "length({s})|length_batch({s})|firstlength({s})|time({q})|time_accum({q})|firsttime({q})|ext_timed({t}, {q})"
    "|time_order({t}, {q})|timetolive({t})|time_batch({p}{f})|time_batch({p}, 300L{f})|ext_timed_batch({t}, {p})"
    "|ext_timed_batch({t}, {p}, 300L)|time_length_batch({p}, {s}{f})|keepall|expr({e})|expr_batch({eb})"
    "|expr_batch({eb}, false)|unique({k})|firstunique({k})|lastevent|firstevent|sort({s}, {c})|rank({k}, 3, {c})"
)
DERIVED = "size|size(k)|uni({v})|uni({v}, k, *)|linest({v}, {v}, g)|correl({v}, {v})|weighted_avg({v}, {v}, k, g)"
AGGREGATES = (
    "count(*{o})|sum({v}{o})|sum(distinct {v}{o})|avg({v}{o})|min({v}{o})|max({v}{o})|count(distinct {v}{o})"
    "|stddev({v}{o})|median({v}{o})|avedev({v}{o})|first({v}{o})|last({v}{o})|nth({v}, 1{o})|minever({v}{o})"
    "|maxever({v}{o})|firstever({v}{o})|lastever({v}{o})|countever(*{o})|leaving()|rate(2)|stddevpop({v})"
    "|fmin({v}, {w})|fmax({v}, {w})|maxbyever({v}).k|minbyever({v}).x|percentile_approx({v}, 75{o})"
    "|approx_count_distinct({v}{o})"
)
OVER_WINDOWS = "window({v})|first({v}, 1)|last({v}, 1)|maxby({v}).x|minby({v}, d desc).k|sum(count(*))|sorted(x)"
OPTIONS = "||||, filter:{w}|, group_by:()|, group_by:(k)|, group_by:(g, k)"
GROUPS = "k|g|k, g|rollup(k, g)|cube(k, g)|grouping sets((k), (g), ())|g, rollup(k)|x % 2|b"
ROW_FUNCTIONS = "prior(1, x)|prior(2, k)|istream()|current_timestamp"
PREVIOUS = "prev(1, x)|prev(x, k)|prevtail(x)|prevtail(1, k)|prevcount(x)|prevwindow(x)"
HAVING = "count(*) > 1|sum(x) > 2|avg(d) < 2|max(x) > 1 or min(d) is null|sum(x) > LIM"
RATES = (
    "every 2 events|every N events|every 1 sec|every 700 msec|every P sec|every 1 minute|at (*, *, *, *, *, */5)"
    "|when count_insert >= 2|when count_insert_total > 4 and count_insert > 0|when count_remove > 0|when GO"
    "|when last_output_timestamp + 1500 < current_timestamp|when GO then set GO = false"
    "|when count_insert > 1 then set LIM = LIM + 1, N = 2"
)
AFTER = "after 2 events|after 1 sec|after 2 events every 2 events|after 3 sec snapshot every 1 sec"


class Module(NamedTuple):
    """A module with the statement ``s``; `contents`: its rows are the events that its window holds."""

    epl: str
    contents: bool


class Statements:
    """Draws modules; the same `seed`, the same module."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, choices: str) -> str:
        """One of `choices`, with its placeholders filled."""
        text = self.random.choice(choices.split("|"))
        for name, of in _PLACES.items():
            while name in text:
                text = text.replace(name, self.one(of), 1)
        return text

    def windows(self) -> tuple[str, int, bool]:
        """Code of the windows, how many hold events, and whether a derived-value window is last."""
        count = self.random.choice((0, 1, 1, 1, 1, 1, 2, 2, 3))
        text = "".join(f"#{self.one(WINDOWS)}" for _ in range(count))
        if count and self.chance(0.25):
            keys = self.one(KEYS)
            text = f"#groupwin({keys}){text}" + f"#merge({keys})" * self.chance(0.15)
        if self.chance(0.1):
            return f"{text}#{self.one(DERIVED)}", count, True
        if count > 1:
            text += self.random.choice(("", " retain-union", " retain-intersection"))
        return text, count, False

    def module(self) -> Module:
        """A statement ``s``, maybe in a context, and maybe one that assigns the variables it reads."""
        windows, count, derived = self.windows()
        source = "E" + (f"({self.one(CONDITIONS)})" if self.chance(0.25) else "")
        where = f" where {self.one(CONDITIONS)}" if not derived and self.chance(0.25) else ""
        selector = self.random.choice(("", "irstream ", "irstream ", "rstream "))
        columns, clauses = self._columns(count, derived)
        if not clauses and self.chance(0.1):
            selector += "distinct "
        if self.chance(0.3):
            which = self.random.choice(("", "all ", "first ", "last ", "snapshot "))
            clauses += f" output {self.one(AFTER) if self.chance(0.15) else which + self.one(RATES)}"
        if not derived and self.chance(0.15):
            clauses += f" order by {self.one('x desc|k, x|d|g desc, d')}"
        if self.chance(0.1):
            clauses += f" limit {self.one('1|2|2 offset 1|N')}"
        context = self.chance(0.15)
        parts = [SCHEMA, VARIABLES]
        if context:
            parts.append("create context Each partition by " + self.one("k|g|k and g") + " from E")
        each = "context Each " * context
        parts.append(f"@name('s') {each}select {selector}{columns} from {source}{windows}{where}{clauses}")
        if self.chance(0.1):
            parts.append("on E(x = 4) set N = g + 1, GO = b")
        shows = columns == "*" and selector == "irstream " and not derived and not where and not clauses
        return Module(";\n".join(parts), shows and count > 0 and not context and "batch" not in windows)

    def _columns(self, count: int, derived: bool) -> tuple[str, str]:
        """The columns and the clauses that go with them."""
        kind = self.random.choice(("events", "events", "one group", "groups", "groups"))
        if derived or (kind == "events" and self.chance(0.4)):
            return "*", ""
        own = PREVIOUS if count == 1 and self.chance(0.5) else ROW_FUNCTIONS
        if kind == "events":
            return f"x, {self.one(NUMBERS)} as c, {self.one(own)} as r", ""
        calls = [self.one(OVER_WINDOWS if count and self.chance(0.2) else AGGREGATES) for _ in range(2)]
        columns, clauses = [f"{call} as a{i}" for i, call in enumerate(calls)], ""
        if kind == "groups":
            keys = self.one(GROUPS)
            clauses = f" group by {keys}"
            plain = [f"{e} as q{i}" for i, e in enumerate(keys.split(", "))]
            columns[:0] = ["k as ck", "g as cg"] if "(" in keys else plain
        if self.chance(0.3):
            columns.append("x as cx")
        if self.chance(0.2):
            columns.append(f"{self.one(ROW_FUNCTIONS)} as r")
        return ", ".join(columns), clauses + (f" having {self.one(HAVING)}" if self.chance(0.25) else "")

    def events(self, most: int = 40) -> list[Event]:
        """Events with ties, nulls, NaN, timestamps out of order, and now and then a jump of hours."""
        pick, time, found = self.random.choice, 0, []
        for _ in range(most):
            time += 40_000_000 if self.chance(0.01) else pick(GAPS)
            stamp = None if self.chance(0.03) else pick((time, time, time - 500, time + 700))
            values = {
                "k": pick(("a", "b", "c", None)),
                "g": pick((0, 1, 2)),
                "x": pick((None, -2, -1, 0, 1, 2, 3, 4)),
                "n": pick((None, 0, 1, 2, 3)),
                "d": pick((None, 0.5, -1.5, 2.0, 3.25, math.nan, math.inf)),
                "t": stamp,
                "b": pick((True, False, None)),
            }
            found.append(Event(time, "E", values))
        return found


_PLACES = {
    "{o}": OPTIONS,
    "{s}": SIZES,
    "{p}": PERIODS,
    "{q}": f"{PERIODS}|0 sec",
    "{t}": TIMESTAMPS,
    "{k}": KEYS,
    "{c}": "x|d desc|k, x desc|n asc|-x",
    "{f}": FLOW,
    "{e}": EXPR,
    "{eb}": EXPR_BATCH,
    "{v}": NUMBERS,
    "{w}": CONDITIONS,
}
