"""The data windows of EPL, one row each (Esper reference, chapter "EPL Reference: Data Windows").

Durations accept a time period or a number of seconds. `EXAMPLE_SCHEMA` declares what the examples of this and the other
registries refer to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.types import Type

EXAMPLE_SCHEMA = """create schema Tick(symbol string, price double, volume int, ts long, flags int[], info Map);
create table Seen(symbols countMinSketch({topk: 2}));
into table Seen select countMinSketchAdd(symbol) as symbols from Tick"""

ParameterKind = Literal[
    "size",  # int above 0, read once
    "duration",  # time period, or a number of seconds above 0
    "reference",  # int or long in units of the clock, read once
    "seed",  # int or long, read once
    "flow",  # string of flow-control keywords
    "key",  # any expression over the event
    "timestamp",  # numeric expression over the event
    "number",  # numeric expression over the event
    "sort",  # expression over the event with asc or desc
    "condition",  # boolean expression over the window
    "flag",  # boolean, read once
]


@dataclass(frozen=True, slots=True)
class WindowParameter:
    """A parameter of a window: `optional` ones may be left out, a `repeated` one takes one or more values."""

    name: str
    kind: ParameterKind
    optional: bool = False
    repeated: bool = False


WindowKind = Literal["window", "batch", "grouping", "merging", "derived"]
EvictionOrder = Literal["never", "in order", "anyhow"]


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One window, with all facts about it. `namespace` may be written before the name (``win:length``).

    A ``batch`` collects events and releases them together, a ``grouping`` one gives each key its own instances of those
    behind it, a ``merging`` one ends that, a ``derived`` one makes values of events. Of windows and batches: `leaves`
    tells how events leave (``in order``: the oldest first; of a batch, how the former batch does).

    `timed`: an advance of the clock may change what it holds or releases. `reads_arrival_time`: it reads when an event
    arrived. `operands`: how many values of the arriving event it compares (keys, timestamps, sort keys). `by_ordinal`:
    it tells events apart by their number. `deadline_may_advance`: events that other windows take away may make it due
    at once. `independent_groups`: of each group it holds what it would hold if there were no other groups, and nobody
    sees the order among groups. `counts`: a batch that need not know of its events more than how many came and when.
    `lazy_expiry`: what leaves by time may be dropped later, when somebody looks, if nobody is told of it. `gates`: it
    holds events back, so that an arrival may make several enter. `passing`: it holds events only while the change is
    made that they come with. `hides`: it stands behind other windows and shows some of what they hold. `chooses`: it
    does not take all events, and other windows do not know of that. `unordered`: it keeps no order of arrival or of
    sorting. `alone`: how long an event stays does not depend on others. `forgets`: what it holds depends on the events
    of the last period only; of a ``grid`` of batches from a reference point, on those of two periods; on the last
    `size` of them, or on the last ``one``. `divides`: its keys divide it into windows that know nothing of each other.
    `aligned`: without a reference point, its grid is that of the calendar. `fields`: what a derived one makes; it
    `skips_unchanged` if values that stay the same are not posted. `esper`: it is one of Esper's.
    """

    name: str
    parameters: tuple[WindowParameter, ...]
    doc: str
    example: str
    namespace: str
    kind: WindowKind
    leaves: EvictionOrder | None = None
    timed: bool = False
    reads_arrival_time: bool = False
    operands: int = 0
    by_ordinal: bool = False
    deadline_may_advance: bool = False
    independent_groups: bool = False
    lazy_expiry: bool = False
    counts: bool = False
    gates: bool = False
    passing: bool = False
    hides: bool = False
    chooses: bool = False
    unordered: bool = False
    alone: bool = False
    forgets: Literal["", "period", "grid", "size", "one"] = ""
    divides: bool = False
    aligned: bool = False
    fields: Mapping[str, Type] = field(default_factory=dict)
    skips_unchanged: bool = False
    esper: bool = True

    def __post_init__(self) -> None:
        if self.holds != (self.leaves is not None):
            raise TypeError(f"the row of window {self.name} must {'' if self.holds else 'not '}say how events leave")
        if self.derived != bool(self.fields):
            raise TypeError(f"the row of window {self.name} must {'' if self.derived else 'not '}have fields")
        compared = sum(p.kind in ("key", "timestamp", "sort") for p in self.parameters)
        if self.holds and self.operands != compared:
            raise TypeError(f"the row of window {self.name} has {self.operands} operands for {compared} parameters")

    @property
    def stamped(self) -> bool:
        """True if the window reads time from a property of its events."""
        return any(p.kind == "timestamp" for p in self.parameters)

    @property
    def holds(self) -> bool:
        """True if the window retains events."""
        return self.kind in ("window", "batch")

    @property
    def grouping(self) -> bool:
        return self.kind == "grouping"

    @property
    def merging(self) -> bool:
        return self.kind == "merging"

    @property
    def batch(self) -> bool:
        return self.kind == "batch"

    @property
    def derived(self) -> bool:
        return self.kind == "derived"

    @property
    def reference(self) -> int | None:
        """The position of the reference point among the parameters; None if there is no such parameter."""
        return next((i for i, parameter in enumerate(self.parameters) if parameter.kind == "reference"), None)

    @property
    def has_condition(self) -> bool:
        return any(parameter.kind == "condition" for parameter in self.parameters)


def _doubles(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, t.DOUBLE)


_SPREAD = ("Average", "StandardDeviationPop", "StandardDeviationSample", "Sum", "Variance")
_SIZE = WindowParameter("size", "size")
_PERIOD = WindowParameter("period", "duration")
_KEYS = WindowParameter("keys", "key", repeated=True)
_CRITERIA = WindowParameter("criteria", "sort", repeated=True)
_REFERENCE = WindowParameter("reference point", "reference", optional=True)
_ORIGIN = WindowParameter("origin", "reference", optional=True)
_FLOW = WindowParameter("flow control", "flow", optional=True)
_TIMESTAMP = WindowParameter("timestamp", "timestamp")
_EXTRA = WindowParameter("properties", "key", optional=True, repeated=True)

_win = partial(WindowRow, namespace="win", kind="window")
_std = partial(WindowRow, namespace="std", kind="window")
_ext = partial(WindowRow, namespace="ext", kind="window")
_batch = partial(WindowRow, namespace="win", kind="batch")
_stat = partial(WindowRow, namespace="stat", kind="derived")

_ROWS = (
    _win(
        "keepall",
        (),
        "keeps all events",
        "select * from Tick#keepall",
        leaves="never",
        independent_groups=True,
        alone=True,
    ),
    _win(
        "length",
        (_SIZE,),
        "keeps the last `size` events",
        "select * from Tick#length(5)",
        leaves="in order",
        independent_groups=True,
        forgets="size",
    ),
    _win(
        "time",
        (_PERIOD,),
        "keeps the events of the last `period`; an event of time t leaves at t + period",
        "select * from Tick#time(10 sec)",
        leaves="in order",
        timed=True,
        reads_arrival_time=True,
        independent_groups=True,
        lazy_expiry=True,
        alone=True,
        forgets="period",
    ),
    _batch(
        "length_batch",
        (_SIZE,),
        "collects `size` events, then releases them together with the former batch as remove stream",
        "select * from Tick#length_batch(3)",
        leaves="in order",
        counts=True,
        independent_groups=True,
    ),
    _batch(
        "time_batch",
        (_PERIOD, _REFERENCE, _FLOW),
        "collects events and releases them every `period`, on a grid that starts with the first event",
        "select * from Tick#time_batch(1 min, 0L, 'FORCE_UPDATE')",
        leaves="in order",
        counts=True,
        timed=True,
        forgets="grid",
    ),
    _batch(
        "session",
        (WindowParameter("gap", "duration"),),
        "collects events and releases them when none has arrived for `gap`; #groupwin(key) gives each key its sessions",
        "select * from Tick#session(30 min)",
        leaves="in order",
        timed=True,
        reads_arrival_time=True,
        deadline_may_advance=True,
        esper=False,
    ),
    _batch(
        "tumbling",
        (_PERIOD, _ORIGIN),
        "collects events and releases them every `period`, on the grid of the calendar: on the hour, at midnight",
        "select * from Tick#tumbling(5 min)",
        leaves="in order",
        counts=True,
        timed=True,
        forgets="grid",
        aligned=True,
        esper=False,
    ),
    _win(
        "hopping",
        (WindowParameter("size", "duration"), WindowParameter("every", "duration"), _ORIGIN),
        "keeps the events of the last `size`; they enter and leave every `every` only, on the grid of the calendar",
        "select * from Tick#hopping(5 min, 1 min)",
        leaves="in order",
        timed=True,
        reads_arrival_time=True,
        by_ordinal=True,
        gates=True,
        aligned=True,
        esper=False,
    ),
    _std(
        "unique",
        (_KEYS,),
        "keeps the last event of each key",
        "select * from Tick#unique(symbol)",
        leaves="anyhow",
        operands=1,
        independent_groups=True,
        unordered=True,
        divides=True,
    ),
    _std(
        "lastevent",
        (),
        "keeps the last event",
        "select * from Tick#lastevent",
        leaves="in order",
        independent_groups=True,
        unordered=True,
        forgets="one",
    ),
    WindowRow(
        "groupwin",
        (_KEYS,),
        "gives each key its own instance of the windows behind it",
        "select * from Tick#groupwin(symbol)#length(2)",
        operands=1,
        namespace="std",
        kind="grouping",
    ),
    WindowRow(
        "merge",
        (_KEYS,),
        "ends groupwin: the windows behind it see all groups together",
        "select * from Tick#groupwin(symbol)#length(2)#merge(symbol)",
        namespace="std",
        kind="merging",
    ),
    _win(
        "firstlength",
        (_SIZE,),
        "keeps the first `size` events",
        "select * from Tick#firstlength(2)",
        leaves="never",
        independent_groups=True,
    ),
    _win(
        "firsttime",
        (_PERIOD,),
        "keeps the events of the first `period`",
        "select * from Tick#firsttime(1 min)",
        leaves="never",
        timed=True,
    ),
    _std(
        "firstevent",
        (),
        "keeps the first event",
        "select * from Tick#firstevent",
        leaves="never",
        unordered=True,
        independent_groups=True,
    ),
    _std(
        "firstunique",
        (_KEYS,),
        "keeps the first event of each key",
        "select * from Tick#firstunique(symbol)",
        leaves="never",
        operands=1,
        unordered=True,
        independent_groups=True,
    ),
    _win(
        "ext_timed",
        (_TIMESTAMP, _PERIOD),
        "a time window over a timestamp property",
        "select * from Tick#ext_timed(ts, 10 sec)",
        leaves="in order",
        operands=1,
        independent_groups=True,
        forgets="period",
    ),
    _batch(
        "ext_timed_batch",
        (_TIMESTAMP, _PERIOD, _REFERENCE),
        "a time batch over a timestamp property",
        "select * from Tick#ext_timed_batch(ts, 10 sec)",
        leaves="in order",
        operands=1,
        independent_groups=True,
        forgets="grid",
    ),
    _batch(
        "time_length_batch",
        (_PERIOD, _SIZE, _FLOW),
        "releases its batch after `period` or `size` events, whichever comes first",
        "select * from Tick#time_length_batch(10 sec, 5)",
        leaves="in order",
        timed=True,
    ),
    _win(
        "time_accum",
        (_PERIOD,),
        "releases all events when none arrived for `period`",
        "select * from Tick#time_accum(10 sec)",
        leaves="in order",
        timed=True,
        reads_arrival_time=True,
        deadline_may_advance=True,
    ),
    _ext(
        "time_order",
        (_TIMESTAMP, _PERIOD),
        "orders by timestamp; an event leaves at its timestamp plus period",
        "select * from Tick#time_order(ts, 10 sec)",
        leaves="anyhow",
        timed=True,
        operands=1,
        by_ordinal=True,
    ),
    _ext(
        "timetolive",
        (_TIMESTAMP,),
        "keeps an event until its timestamp",
        "select * from Tick#timetolive(ts)",
        leaves="anyhow",
        timed=True,
        operands=1,
        by_ordinal=True,
    ),
    _ext(
        "sort",
        (_SIZE, _CRITERIA),
        "keeps the first `size` events in the sort order",
        "select * from Tick#sort(3, price)",
        leaves="anyhow",
        operands=1,
        by_ordinal=True,
        independent_groups=True,
    ),
    _ext(
        "rank",
        (_KEYS, _SIZE, _CRITERIA),
        "keeps the last event of each key and of these the first `size` in the sort order",
        "select * from Tick#rank(symbol, 3, price)",
        leaves="anyhow",
        operands=2,
        by_ordinal=True,
        independent_groups=True,
    ),
    _win(
        "expr",
        (WindowParameter("condition", "condition"),),
        "drops its oldest events until the condition is true, at each arrival",
        "select * from Tick#expr(current_count <= 5)",
        leaves="in order",
        by_ordinal=True,
    ),
    _batch(
        "expr_batch",
        (WindowParameter("condition", "condition"), WindowParameter("include trigger", "flag", optional=True)),
        "collects events and releases them when the condition is true",
        "select * from Tick#expr_batch(current_count > 5)",
        leaves="in order",
        by_ordinal=True,
    ),
    _win(
        "gated_time",
        (_PERIOD, WindowParameter("gate", "duration"), WindowParameter("size", "size", optional=True)),
        "keeps the events of the last `period` (and `size`); they enter and leave every `gate` only, on a grid "
        "from the statement's beginning",
        "select * from Tick#gated_time(1.5 sec, 1 sec)",
        leaves="in order",
        timed=True,
        reads_arrival_time=True,
        by_ordinal=True,
        gates=True,
        esper=False,
    ),
    _win(
        "gated_length",
        (_SIZE, WindowParameter("gate", "size")),
        "keeps the last `size` events; events enter when `gate` of them have come",
        "select * from Tick#gated_length(3, 2)",
        leaves="in order",
        gates=True,
        esper=False,
    ),
    _win(
        "random",
        (_SIZE, WindowParameter("seed", "seed", optional=True)),
        "keeps the last `size` of the events of which a coin, which follows from the `seed`, says that they enter",
        "select * from Tick#random(5, 1L)",
        leaves="in order",
        chooses=True,
        esper=False,
    ),
    _std(
        "newest",
        (_KEYS,),
        "shows the last event of each key of what the windows before it hold; what it hides takes its place there",
        "select * from Tick#length(5)#newest(symbol)",
        leaves="anyhow",
        operands=1,
        by_ordinal=True,
        hides=True,
        esper=False,
    ),
    _win(
        "lot",
        (),
        "holds the events that arrive together, while what they change is worked out; aggregates begin anew each time",
        "select symbol, price from Tick#lot",
        leaves="never",
        passing=True,
        esper=False,
    ),
    _stat(
        "uni",
        (WindowParameter("value", "number"), _EXTRA),
        "univariate statistics of the events so far or of the window before it",
        "select * from Tick#length(5)#uni(price)",
        fields={"datapoints": t.LONG, **_doubles("total", "stddev", "stddevpa", "variance", "average")},
    ),
    WindowRow(
        "size",
        (_EXTRA,),
        "the number of events",
        "select size from Tick#length(5)#size",
        fields={"size": t.LONG},
        skips_unchanged=True,
        namespace="std",
        kind="derived",
    ),
    _stat(
        "linest",
        (WindowParameter("x", "number"), WindowParameter("y", "number"), _EXTRA),
        "linear regression",
        "select slope from Tick#length(5)#linest(price, volume)",
        fields={
            **_doubles("slope", "YIntercept"),
            **_doubles(*(f"X{name}" for name in _SPREAD), *(f"Y{name}" for name in _SPREAD)),
            "dataPoints": t.LONG,
            "n": t.LONG,
            **_doubles("sumX", "sumXSq", "sumXY", "sumY", "sumYSq"),
        },
    ),
    _stat(
        "correl",
        (WindowParameter("x", "number"), WindowParameter("y", "number"), _EXTRA),
        "correlation",
        "select correlation from Tick#length(5)#correl(price, volume)",
        fields=_doubles("correlation"),
    ),
    _stat(
        "weighted_avg",
        (WindowParameter("value", "number"), WindowParameter("weight", "number"), _EXTRA),
        "weighted average",
        "select average from Tick#length(5)#weighted_avg(price, volume)",
        fields=_doubles("average"),
    ),
)

# The row of all windows that are Python functions; the last argument of a call is an `expressions.UserClass`
USER_WINDOW = WindowRow(
    "supplied",
    (WindowParameter("values", "key", optional=True, repeated=True),),
    "a data window from Python",
    "",
    "",
    "window",
    leaves="anyhow",
    operands=1,
)


USER_WINDOW_WITH_CLOCK = replace(USER_WINDOW, name="supplied with a clock", timed=True, reads_arrival_time=True)


class _Rows(dict[str, WindowRow]):
    """The rows by name; Python windows share two unlisted rows."""

    def __missing__(self, name: str) -> WindowRow:
        for row in (USER_WINDOW, USER_WINDOW_WITH_CLOCK):
            if name == row.name:
                return row
        raise KeyError(name)


WINDOWS: dict[str, WindowRow] = _Rows((row.name, row) for row in _ROWS)

FLOW_CONTROL = ("FORCE_UPDATE", "START_EAGER")
