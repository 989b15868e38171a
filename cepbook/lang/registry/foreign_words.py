"""Words of SQL and of other stream processors, and the line that says the same in EPL.

Hints, ``%epl help`` and completion read the rows. `tests/lang/registry/test_foreign_words.py` runs every example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ForeignKind = Literal["call", "window", "clause"]


@dataclass(frozen=True, slots=True)
class ForeignWord:
    """One word, with its other spellings in `also`.

    `doc` says what EPL has instead, `example` is a statement that runs with `registry.windows.EXAMPLE_SCHEMA`. `forms`
    are what a call becomes: ``{0}``, ``{1}`` … stand for its arguments, ``{all}`` for a list of any length.
    """

    name: str
    kind: ForeignKind
    doc: str
    example: str
    forms: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def hint(self, arguments: Sequence[str] = ()) -> str:
        """Return the hint for a call with these texts as arguments."""
        for form in self.forms:
            if "{all}" in form or _arity(form) == len(arguments):
                return f"write `{form.format(*arguments, all=', '.join(arguments))}`"
        return self.doc


def _arity(form: str) -> int:
    return max((int(place) + 1 for place in re.findall(r"\{(\d)\}", form)), default=0)


def _call(names: str, samples: str, *forms: str, doc: str = "") -> ForeignWord:
    """Return the row of a function; the example is its last form, with `samples` as arguments."""
    name, *also = names.split()
    arguments = samples.split(" & ") if samples else []
    example = forms[-1].format(*arguments, all=", ".join(arguments))
    return ForeignWord(
        name, "call", doc or f"write {example}", f"select {example} as v from Tick#length(5)", forms, tuple(also)
    )


def _instead(names: str, doc: str, example: str, kind: ForeignKind = "clause") -> ForeignWord:
    name, *also = names.split()
    return ForeignWord(name, kind, doc, example, also=tuple(also))


_WORDS = (
    # dates and times
    _call("hour", "ts", "{0}.getHourOfDay()"),
    _call("minute", "ts", "{0}.getMinuteOfHour()"),
    _call("second", "ts", "{0}.getSecondOfMinute()"),
    _call("day dayofmonth", "ts", "{0}.getDayOfMonth()"),
    _call("month", "ts", "{0}.getMonthOfYear()"),
    _call("year", "ts", "{0}.getYear()"),
    _call("dayofweek weekday", "ts", "{0}.getDayOfWeek()"),
    _call("week weekofyear", "ts", "{0}.getWeekyear()"),
    _call("date_trunc", "'hour' & ts", "{1}.roundFloor({0})"),
    _call(
        "now getdate sysdate localtimestamp current_time current_date proctime eventtimestamp timestampinmilliseconds",
        "",
        "current_timestamp",
    ),
    _call(
        "to_timestamp to_date date timestamp str_to_date strptime parse_date",
        "'2024-01-01' & 'yyyy-MM-dd'",
        "cast({0}, date, dateformat: 'yyyy-MM-dd')",
        "cast({0}, date, dateformat: {1})",
        doc="a text becomes a date with its format: cast(text, date, dateformat: 'yyyy-MM-dd')",
    ),
    _call("date_format timestamptostring", "ts & 'yyyy-MM-dd'", "{0}.format()", "{0}.format({1})"),
    _instead(
        "strftime to_char",
        "write ts.format('yyyy-MM-dd HH:mm'): the letters are those of Java",
        "select ts.format('yyyy-MM-dd HH:mm') as v from Tick",
        "call",
    ),
    _call("date_part", "'hour' & ts", "{1}.get({0})"),
    _call("datepart", "hour & ts", "{1}.get('{0}')"),
    _call("epoch unix_timestamp to_unixtime", "ts", "{0}.toMillisec() / 1000"),
    _call("from_unixtime to_timestamp_ltz", "ts", "({0} * 1000).toDate()"),
    _instead(
        "tumble_start tumble_end hop_start hop_end session_start session_end window_start window_end windowstart "
        "windowend",
        "a batch ends when it is delivered: current_timestamp is the end, current_timestamp.minus(1 min) the start",
        "select current_timestamp.minus(1 min) as begins, count(*) as n from Tick#tumbling(1 min)",
        "call",
    ),
    _call("date_add dateadd timestampadd", "ts & 1 hour", "{0}.plus({1})", doc="add a time period: ts.plus(1 hour)"),
    _call("date_sub", "ts & 1 hour", "{0}.minus({1})", doc="subtract a time period: ts.minus(1 hour)"),
    _call("datediff date_diff timestampdiff", "current_timestamp & ts", "{2} - {1}", "{0} - {1}"),
    # texts
    _call("upper ucase", "symbol", "{0}.toUpperCase()"),
    _call("lower lcase", "symbol", "{0}.toLowerCase()"),
    _call("len char_length character_length strlen", "symbol", "{0}.length()"),
    _call("trim btrim strip", "symbol", "{0}.trim()"),
    _call("left", "symbol & 2", "{0}.substring(0, {1})"),
    _call("concat", "symbol & '!'", "{0} || {1} || {2}", "{0} || {1}", doc="join texts with ||"),
    _call(
        "substr substring mid",
        "symbol & 1 & 2",
        "{0}.substring({1} - 1)",
        "{0}.substring({1} - 1, {1} - 1 + {2})",
    ),
    _call("starts_with startswith", "symbol & 'A'", "{0}.startsWith({1})"),
    _call("ends_with endswith", "symbol & 'A'", "{0}.endsWith({1})"),
    _call("contains", "symbol & 'A'", "{0}.contains({1})"),
    _call("replace", "symbol & 'A' & 'B'", "{0}.replace({1}, {2})"),
    _call("instr strpos", "symbol & 'A'", "{0}.indexOf({1}) + 1"),
    _call("charindex locate position", "'A' & symbol", "{1}.indexOf({0}) + 1"),
    _call("regexp_like rlike regexp_matches", "symbol & 'A.*'", "{0} regexp {1}"),
    # nulls and choices
    _call("isin", "symbol & 'A' & 'B'", "{0} in ({1})", "{0} in ({1}, {2})", doc="write symbol in ('A', 'B')"),
    _call("isnull ifnull nvl isna fillna", "price & 0", "{0} is null", "coalesce({0}, {1})"),
    _call("notnull isnotnull notna", "price", "{0} is not null"),
    _call("nullif", "price & 0", "(case when {0} = {1} then null else {0} end)"),
    _call(
        "if iif ifthenelse",
        "price > 1 & 'high' & 'low'",
        "case when {0} then {1} else {2} end",
        doc="write case when … then … else … end",
    ),
    _call("greatest", "price & 1.0", "max({all})"),
    _call("least", "price & 1.0", "min({all})"),
    # numbers and conversions
    _call("power", "price & 2", "Math.pow({0}, {1})"),
    _call("ceiling", "price", "Math.ceil({0})"),
    _call("ln", "price", "Math.log({0})"),
    _call("sign", "price", "Math.signum({0})"),
    _call("mod fmod", "volume & 2", "{0} % {1}"),
    _call("trunc truncate", "price", "cast({0}, long)"),
    _call("clip", "price & 0 & 10", "max({1}, min({2}, {0}))"),
    _call("pct_change", "price", "{0} / prior(1, {0}) - 1"),
    _call("int to_int", "price", "cast({0}, int)"),
    _call("float to_double to_number", "price", "cast({0}, double)"),
    _call("str to_string", "price", "cast({0}, string)"),
    _call("try_cast astype", "price & int", "cast({0}, {1})"),
    _instead("convert", "write cast(value, int)", "select cast(price, int) from Tick", "call"),
    # aggregates
    _call("average mean", "price", "avg({0})"),
    _call("std stdev stddev_samp", "price", "stddev({0})"),
    _call("stddev_pop", "price", "stddevpop({0})"),
    _call("var var_samp", "price", "variance({0})"),
    _call(
        "nunique distinctcount count_distinct",
        "symbol",
        "count(distinct {0})",
    ),
    _call("approx_distinct uniq ndv approx_unique hll_count_distinct", "symbol", "approx_count_distinct({0})"),
    _call("count_if countif", "price > 1", "count(*, {0})"),
    _call("bool_or any_true logical_or", "price > 1", "count(*, {0}) > 0"),
    _call("bool_and every all_true logical_and", "price > 1", "count(*, not ({0})) = 0"),
    _instead(
        "corr correlation pearson",
        "it is a window that makes values: #length(100)#correl(price, volume)",
        "select correlation from Tick#length(100)#correl(price, volume)",
        "call",
    ),
    _instead(
        "regr_slope regr_intercept linregress",
        "it is a window that makes values: #length(100)#linest(price, volume) has slope and YIntercept",
        "select slope, YIntercept from Tick#length(100)#linest(price, volume)",
        "call",
    ),
    _instead(
        "value_counts histogram",
        "count by key: select symbol, count(*) … group by symbol",
        "select symbol, count(*) as n from Tick#length(100) group by symbol",
        "call",
    ),
    _instead(
        "ewm ewma",
        "keep it in a variable: on Tick set mean = 0.9 * mean + 0.1 * price",
        "create variable double mean = 0; on Tick set mean = 0.9 * mean + 0.1 * price",
        "call",
    ),
    _call("sum_if sumif", "price & volume > 1", "sum({0}, {1})"),
    _call("first_value any_value earliest_by_offset", "price", "first({0})"),
    _call("last_value latest_by_offset latest", "price", "last({0})"),
    _call("listagg group_concat", "symbol & ','", "string_agg({0}, ',')", "string_agg({0}, {1})"),
    _call("collect_list collectlist collect list", "price", "window({0})"),
    _call("arg_max argmax max_by", "symbol & price", "maxby({1}).{0}"),
    _call("arg_min argmin min_by", "symbol & price", "minby({1}).{0}"),
    _call(
        "quantile percentile_cont",
        "price & 0.95",
        "percentile({0}, 100 * {1})",
    ),
    _call("approx_quantile approx_percentile", "price & 0.95", "percentile_approx({0}, 100 * {1})"),
    _call(
        "lag shift",
        "price & 1",
        "prior(1, {0})",
        "prior({1}, {0})",
        doc="prev(1, x) is the value of the row before it, of its window; prior(1, x) that of the event before it",
    ),
    _call("diff", "price", "{0} - prior(1, {0})"),
    _call("row_number", "", "count(*)"),
    _instead(
        "lead",
        "the next event is yet to come: match both, every a=Tick -> b=Tick(symbol = a.symbol)",
        "select a.price, b.price from pattern[every a=Tick -> b=Tick(symbol = a.symbol)]",
        "call",
    ),
    _instead("accumulate", "aggregates are functions: sum(price), avg(price)", "select sum(price) from Tick", "call"),
    _instead(
        "topk",
        "the three highest are the data window #sort(3, price desc)",
        "select symbol, price from Tick#sort(3, price desc)",
        "call",
    ),
    _instead(
        "classifier",
        "measures have a column for each variable: it is null where the variable matched no row",
        "select * from Tick match_recognize (measures A.price as a pattern (A) define A as A.price > 1)",
        "call",
    ),
    _instead(
        "match_number",
        "count the matches: select count(*) … in a statement that reads them",
        "select count(*) from Tick",
        "call",
    ),
    _instead(
        "point",
        "a point stands before a method: point(x, y).inside(rectangle(…))",
        "select * from Tick(point(price, volume).inside(rectangle(0, 0, 100, 50)))",
        "call",
    ),
    _instead(
        "rectangle",
        "a rectangle stands before a method: rectangle(…).intersects(rectangle(…))",
        "select * from Tick(rectangle(price, volume, 1, 1).intersects(rectangle(0, 0, 9, 9)))",
        "call",
    ),
    # windows
    _instead("tumble resample", "write #tumbling(1 min)", "select count(*) from Tick#tumbling(1 min)", "window"),
    _instead("hop", "write #hopping(5 min, 1 min)", "select count(*) from Tick#hopping(5 min, 1 min)", "window"),
    _instead(
        "sliding slide rolling",
        "the last 5 minutes are #time(5 min), the last 10 events #length(10)",
        "select avg(price) from Tick#time(5 min)",
        "window",
    ),
    _instead("count rows", "write #length(10)", "select avg(price) from Tick#length(10)", "window"),
    _instead("timebatch", "write #time_batch(5 sec)", "select avg(price) from Tick#time_batch(5 sec)", "window"),
    _instead("lengthbatch", "write #length_batch(10)", "select avg(price) from Tick#length_batch(10)", "window"),
    _instead(
        "externaltime", "write #ext_timed(ts, 5 min)", "select avg(price) from Tick#ext_timed(ts, 5 min)", "window"
    ),
    # clauses
    _instead(
        "as-of asof",
        "the latest event of each key is #unique(symbol); a stream that is `unidirectional` looks it up",
        "select t.price, q.price from Tick t unidirectional, Tick#unique(symbol) q where t.symbol = q.symbol",
    ),
    _instead(
        "late lateness watermark",
        'cep.replay(frame, type="Tick", lateness="5 s") puts late events in order; later ones are events of LateEvent',
        "select * from LateEvent",
    ),
    _instead(
        "top-n topn top",
        "the three highest are #sort(3, price desc), those of each key #rank; the most frequent: docs/epl_for_sql.md",
        "select symbol, price from Tick#sort(3, price desc)",
    ),
    _instead("qualify", "write having", "select symbol, count(*) from Tick group by symbol having count(*) > 3"),
    _instead(
        "union",
        "insert both into one stream",
        "insert into Merged select symbol, price from Tick(price > 1);"
        "insert into Merged select symbol, price from Tick(price < 0)",
    ),
    _instead(
        "emit",
        "leave it out: every change is delivered; output says when",
        "select count(*) from Tick output every 5 sec",
    ),
)

FOREIGN_WORDS: dict[str, ForeignWord] = {name: row for row in _WORDS for name in (row.name, *row.also)}

FOREIGN_TYPES = {
    **dict.fromkeys("text str char_varying nvarchar nchar clob uuid enum json String".split(), "string"),
    **dict.fromkeys("number numeric decimal money".split(), "bigdecimal"),
    **dict.fromkeys("real double_precision float64 f64".split(), "double"),
    **dict.fromkeys("float32 f32".split(), "float"),
    **dict.fromkeys("int64 i64 int8 serial datetime64 timestamp_ltz".split(), "long"),
    **dict.fromkeys("int32 i32 int4 mediumint smallint tinyint int16".split(), "int"),
    **dict.fromkeys("datetime timestamptz timestamp_ntz instant".split(), "timestamp"),
    **dict.fromkeys("struct row record object_map".split(), "Map"),
}
"""The types of SQL and Python that have other names here."""

COLLECTION_TYPES = frozenset("array list arraylist linkedlist collection iterable sequence set hashset tuple".split())
"""The types of Java and Python, without their package, in whose place stands an array."""


def foreign_word(name: str, *kinds: ForeignKind) -> ForeignWord | None:
    """Return the row of `name`, in any case of letters, or None."""
    row = FOREIGN_WORDS.get(name.lower())
    return row if row is not None and (not kinds or row.kind in kinds) else None
