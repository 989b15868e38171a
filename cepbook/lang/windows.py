"""The data windows of EPL, one row each (Esper reference, chapter "EPL Reference: Data Windows").

A row states how a window is called; `supported` says whether engines run it. Durations accept a time period or a number
of seconds. `EXAMPLE_SCHEMA` declares what the examples of this and the other registries refer to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EXAMPLE_SCHEMA = "create schema Tick(symbol string, price double, volume int, ts long, flags int[], info Map)"

ParameterKind = Literal[
    "size",  # int above 0, read once
    "duration",  # time period, or a number of seconds above 0
    "reference",  # int or long in units of the clock, read once
    "flow",  # string of flow-control keywords
    "key",  # any expression over the event
    "timestamp",  # numeric expression over the event
    "number",  # numeric expression over the event
    "sort",  # expression over the event with asc or desc
    "condition",  # boolean expression over the window
    "flag",  # boolean, read once
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `optional` ones may be left out, a `repeated` one takes one or more values."""

    name: str
    kind: ParameterKind
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One window. `namespace` may be written before the name (``win:length``).

    `timed`: an advance of the clock may change what it holds or releases. `batch`: it collects events and releases them
    together.
    """

    name: str
    namespace: str
    parameters: tuple[Parameter, ...]
    doc: str
    example: str
    supported: bool = True
    derived: bool = False
    timed: bool = False
    batch: bool = False


_SIZE = Parameter("size", "size")
_PERIOD = Parameter("period", "duration")
_KEYS = Parameter("keys", "key", repeated=True)
_CRITERIA = Parameter("criteria", "sort", repeated=True)
_REFERENCE = Parameter("reference point", "reference", optional=True)
_FLOW = Parameter("flow control", "flow", optional=True)
_TIMESTAMP = Parameter("timestamp", "timestamp")
_EXTRA = Parameter("properties", "key", optional=True, repeated=True)

_ROWS = (
    WindowRow("keepall", "win", (), "keeps all events", "select * from Tick#keepall"),
    WindowRow("length", "win", (_SIZE,), "keeps the last `size` events", "select * from Tick#length(5)"),
    WindowRow(
        "time",
        "win",
        (_PERIOD,),
        "keeps the events of the last `period`; an event of time t leaves at t + period",
        "select * from Tick#time(10 sec)",
        timed=True,
    ),
    WindowRow(
        "length_batch",
        "win",
        (_SIZE,),
        "collects `size` events, then releases them together with the former batch as remove stream",
        "select * from Tick#length_batch(3)",
        batch=True,
    ),
    WindowRow(
        "time_batch",
        "win",
        (_PERIOD, _REFERENCE, _FLOW),
        "collects events and releases them every `period`, on a grid that starts with the first event",
        "select * from Tick#time_batch(1 min, 0L, 'FORCE_UPDATE')",
        timed=True,
        batch=True,
    ),
    WindowRow(
        "unique",
        "std",
        (_KEYS,),
        "keeps the last event of each key",
        "select * from Tick#unique(symbol)",
    ),
    WindowRow("lastevent", "std", (), "keeps the last event", "select * from Tick#lastevent"),
    WindowRow(
        "groupwin",
        "std",
        (_KEYS,),
        "gives each key its own instance of the windows behind it",
        "select * from Tick#groupwin(symbol)#length(2)",
    ),
    WindowRow(
        "merge",
        "std",
        (_KEYS,),
        "ends groupwin: the windows behind it see all groups together",
        "select * from Tick#groupwin(symbol)#length(2)#merge(symbol)",
    ),
    WindowRow("firstlength", "win", (_SIZE,), "keeps the first `size` events", "select * from Tick#firstlength(2)"),
    WindowRow(
        "firsttime",
        "win",
        (_PERIOD,),
        "keeps the events of the first `period`",
        "select * from Tick#firsttime(1 min)",
        timed=True,
    ),
    WindowRow("firstevent", "std", (), "keeps the first event", "select * from Tick#firstevent"),
    WindowRow(
        "firstunique", "std", (_KEYS,), "keeps the first event of each key", "select * from Tick#firstunique(symbol)"
    ),
    WindowRow(
        "ext_timed",
        "win",
        (_TIMESTAMP, _PERIOD),
        "a time window over a timestamp property",
        "select * from Tick#ext_timed(ts, 10 sec)",
    ),
    WindowRow(
        "ext_timed_batch",
        "win",
        (_TIMESTAMP, _PERIOD, _REFERENCE),
        "a time batch over a timestamp property",
        "select * from Tick#ext_timed_batch(ts, 10 sec)",
        batch=True,
    ),
    WindowRow(
        "time_length_batch",
        "win",
        (_PERIOD, _SIZE, _FLOW),
        "releases its batch after `period` or `size` events, whichever comes first",
        "select * from Tick#time_length_batch(10 sec, 5)",
        timed=True,
        batch=True,
    ),
    WindowRow(
        "time_accum",
        "win",
        (_PERIOD,),
        "releases all events when none arrived for `period`",
        "select * from Tick#time_accum(10 sec)",
        timed=True,
    ),
    WindowRow(
        "time_order",
        "ext",
        (_TIMESTAMP, _PERIOD),
        "orders by timestamp; an event leaves at its timestamp plus period",
        "select * from Tick#time_order(ts, 10 sec)",
        timed=True,
    ),
    WindowRow(
        "timetolive",
        "ext",
        (_TIMESTAMP,),
        "keeps an event until its timestamp",
        "select * from Tick#timetolive(ts)",
        timed=True,
    ),
    WindowRow(
        "sort",
        "ext",
        (_SIZE, _CRITERIA),
        "keeps the first `size` events in the sort order",
        "select * from Tick#sort(3, price)",
    ),
    WindowRow(
        "rank",
        "ext",
        (_KEYS, _SIZE, _CRITERIA),
        "keeps the last event of each key and of these the first `size` in the sort order",
        "select * from Tick#rank(symbol, 3, price)",
    ),
    WindowRow(
        "expr",
        "win",
        (Parameter("condition", "condition"),),
        "drops its oldest events until the condition is true, at each arrival",
        "select * from Tick#expr(current_count <= 5)",
    ),
    WindowRow(
        "expr_batch",
        "win",
        (Parameter("condition", "condition"), Parameter("include trigger", "flag", optional=True)),
        "collects events and releases them when the condition is true",
        "select * from Tick#expr_batch(current_count > 5)",
        batch=True,
    ),
    WindowRow(
        "uni",
        "stat",
        (Parameter("value", "number"), _EXTRA),
        "univariate statistics of the events so far or of the window before it",
        "select * from Tick#length(5)#uni(price)",
        derived=True,
    ),
    WindowRow(
        "size",
        "std",
        (_EXTRA,),
        "the number of events",
        "select size from Tick#length(5)#size",
        derived=True,
    ),
    WindowRow(
        "linest",
        "stat",
        (Parameter("x", "number"), Parameter("y", "number"), _EXTRA),
        "linear regression",
        "select slope from Tick#length(5)#linest(price, volume)",
        derived=True,
    ),
    WindowRow(
        "correl",
        "stat",
        (Parameter("x", "number"), Parameter("y", "number"), _EXTRA),
        "correlation",
        "select correlation from Tick#length(5)#correl(price, volume)",
        derived=True,
    ),
    WindowRow(
        "weighted_avg",
        "stat",
        (Parameter("value", "number"), Parameter("weight", "number"), _EXTRA),
        "weighted average",
        "select average from Tick#length(5)#weighted_avg(price, volume)",
        derived=True,
    ),
)

WINDOWS: dict[str, WindowRow] = {row.name: row for row in _ROWS}

FLOW_CONTROL = ("FORCE_UPDATE", "START_EAGER")
