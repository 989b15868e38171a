"""From the text of a window chain to the naive windows that it means, as far as the tests write such texts.

Names of properties, numbers of seconds and time periods are read; every other expression stands in `GETTERS` or
`CONDITIONS` beside what it means. A text that is not understood raises `Unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

from tests.engine.windows import references as r
from tests.engine.windows.references import Condition, Event, Getter, View, Window


class Unknown(Exception):
    """Not a text that is understood here."""


UNITS = {"msec": 1, "millisecond": 1, "sec": 1000, "second": 1000, "min": 60_000, "minute": 60_000, "hour": 3_600_000}
GETTERS: dict[str, Getter] = {
    "secs * 1000L": lambda e: e["secs"] * 1000,
    "x * 2": lambda e: None if e["x"] is None else e["x"] * 2,
    "price * 2": lambda e: e["price"] * 2,
}


def total(view: View, name: str = "x") -> float | None:
    values = [e[name] for e in view.counted if e[name] is not None]
    return sum(values) if values else None


def compared(left: Any, right: Any, test: Callable[[Any, Any], bool]) -> bool | None:
    return None if left is None or right is None else test(left, right)


def less(left: Any, right: Any) -> bool | None:
    return compared(left, right, lambda a, b: a < b)


def same(left: Any, right: Any) -> bool | None:
    return compared(left, right, lambda a, b: a == b)


def differ(left: Any, right: Any) -> bool | None:
    return compared(left, right, lambda a, b: a != b)


CONDITIONS: dict[str, Condition] = {
    "current_count <= 1": lambda v: v.count <= 1,
    "current_count <= 2": lambda v: v.count <= 2,
    "current_count >= 2": lambda v: v.count >= 2,
    "current_count >= 3": lambda v: v.count >= 3,
    "current_count <= SIZE": lambda v: v.count <= v.variables["SIZE"],
    "current_count >= SIZE": lambda v: v.count >= v.variables["SIZE"],
    "expired_count >= 1 or current_count <= 3": lambda v: v.expired >= 1 or v.count <= 3,
    "expired_count + current_count <= 3": lambda v: v.expired + v.count <= 3,
    "view_reference is not null and current_count <= 1": lambda v: v.count <= 1,
    "oldest_timestamp > newest_timestamp - 2000": lambda v: v.times[0] > v.times[-1] - 2000,
    "newest_timestamp - oldest_timestamp > 1000": lambda v: v.times[-1] - v.times[0] > 1000,
    "x > 0": lambda v: less(0, v.event["x"]),
    "x = 1": lambda v: same(v.event["x"], 1),
    "x > 1 or current_count < 3": lambda v: less(1, v.event["x"]) is True or v.count < 3,
    "newest_event.x >= x": lambda v: compared(v.newest["x"], v.event["x"], lambda a, b: a >= b),
    "newest_event.x - oldest_event.x < 5 and newest_timestamp - oldest_timestamp < 1000": lambda v: (
        compared(v.newest["x"], v.oldest["x"], lambda a, b: a - b < 5) is True and v.times[-1] - v.times[0] < 1000
    ),
    "newest_event.k = oldest_event.k": lambda v: same(v.newest["k"], v.oldest["k"]),
    "newest_event.flag != oldest_event.flag": lambda v: differ(v.newest["flag"], v.oldest["flag"]),
    "newest_event.k != oldest_event.k": lambda v: differ(v.newest["k"], v.oldest["k"]),
    "myvalue = 'postme'": lambda v: same(v.event["myvalue"], "postme"),
    "sum(x) < 5": lambda v: less(total(v), 5),
    "sum(x) > 5": lambda v: less(5, total(v)),
    "sum(x) > 10": lambda v: less(10, total(v)),
    "sum(price) <= 10": lambda v: compared(total(v, "price"), 10, lambda a, b: a <= b),
}

_STEP = re.compile(r"[#.](?:(?:win|std|ext|stat):)?(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?")
_ARGUMENT = re.compile(r"""(?:[^,()"']|\([^()]*\)|"[^"]*"|'[^']*')+""")


def build(text: str, start: int = 0, **variables: Any) -> Window:
    """The naive windows of a chain such as ``#groupwin(k)#length(2)#unique(x) retain-union``.

    `start` is when the statement is deployed, `variables` what the expressions of expr windows name.
    """
    chain, _, keyword = text.partition(" retain-")
    steps = [(name, [a.strip() for a in _ARGUMENT.findall(given)]) for name, given in _STEP.findall(chain)]
    if "".join(m.group() for m in _STEP.finditer(chain)) != chain or not steps:
        raise Unknown(text)
    if steps[0][0] == "groupwin":
        keys = steps[0][1]
        at = steps.index(("merge", keys)) if ("merge", keys) in steps else len(steps)
        inner, merged = steps[1:at], steps[at + 1 :]

        def group(key: Hashable) -> Window:
            values = key if isinstance(key, tuple) else (key,)
            return several(inner, keyword, start, variables, dict(zip(keys, values, strict=True)))

        group((None,) * len(keys))  # what is unknown is said now, and not when the first event arrives
        groups = r.Groups(key_of(keys), group)
        if not merged:
            return groups
        if len(merged) > 1 or merged[0][0] not in DERIVED:
            raise Unknown(text)
        return derived_from(groups, *merged[0], {})
    return several(steps, keyword, start, variables, {})


def names_of(text: str) -> set[str]:
    """The names of the windows of a chain."""
    return {name for name, _ in _STEP.findall(text.partition(" retain-")[0])}


Steps = list[tuple[str, list[str]]]


def several(steps: Steps, keyword: str, start: int, variables: dict[str, Any], fixed: dict[str, Any]) -> Window:
    """Data windows, all or any of which retain, and perhaps a derived-value window behind them."""
    derived = steps[-1] if steps[-1][0] in DERIVED else None
    if steps[-1][0] == "newest":
        return r.Newest(several(steps[:-1], keyword, start, variables, fixed), key_of(steps[-1][1]))
    windows = [window(name, given, start, variables) for name, given in (steps if derived is None else steps[:-1])]
    combined: Window
    if not windows:
        combined = r.KeepAll()
    elif len(windows) == 1:
        combined = windows[0]
    else:
        combined = r.Union(*windows) if keyword == "union" else r.Intersection(*windows)
    return combined if derived is None else derived_from(combined, *derived, fixed)


def derived_from(below: Window, name: str, given: list[str], fixed: dict[str, Any]) -> Window:
    make, count = DERIVED[name]
    extra = {re.sub(r"\s*([-+*/])\s*", r"\1", e): getter(e) for e in given[count:]}  # columns have normalised names
    statistics = make(*(getter(v) for v in given[:count]))
    return r.Derived(below, statistics, extra, changes_only=name == "size", fixed=fixed)


DERIVED: dict[str, tuple[Callable[..., r.Statistics], int]] = {
    "size": (r.size, 0),
    "uni": (r.uni, 1),
    "linest": (r.linest, 2),
    "correl": (r.correl, 2),
    "weighted_avg": (r.weighted_avg, 2),
}


def window(name: str, given: list[str], start: int, variables: dict[str, Any]) -> Window:
    match name, given:
        case "keepall", []:
            return r.KeepAll()
        case "length", [n]:
            return r.Length(size(n))
        case "lastevent", []:
            return r.Length(1)
        case "gated_time", [period, gate, *most]:
            return r.GatedTime(duration(period), duration(gate), size(most[0]) if most else None, start)
        case "hopping", [period, every, *origin]:
            return r.Hopping(duration(period), duration(every), reference(origin)[0] or 0)
        case "session", [gap]:
            return r.Session(duration(gap))
        case "tumbling", [period, *origin]:
            return r.TimeBatch(duration(period), reference(origin)[0] or 0, start=start)
        case "gated_length", [n, gate]:
            return r.GatedLength(size(n), size(gate))
        case "random", [n, *seed]:
            if seed and not seed[0].rstrip("L").isdigit():
                raise Unknown(seed[0])
            return r.Random(size(n), int(seed[0].rstrip("L")) if seed else 0)
        case "lot", []:
            return r.Lot()
        case "time", [period]:
            return r.Time(duration(period))
        case "ext_timed", [timestamp, period]:
            return r.ExtTimed(getter(timestamp), duration(period))
        case "time_accum", [period]:
            return r.TimeAccum(duration(period))
        case "time_order", [timestamp, period]:
            return r.TimeOrder(getter(timestamp), duration(period))
        case "timetolive", [timestamp]:
            return r.TimeOrder(getter(timestamp), 0)
        case "firstlength", [n]:
            return r.FirstLength(size(n))
        case "firstevent", []:
            return r.FirstLength(1)
        case "firsttime", [period]:
            return r.FirstTime(duration(period), start)
        case "firstunique", keys:
            return r.FirstUnique(key_of(keys))
        case "unique", keys:
            return r.Unique(key_of(keys))
        case "sort", [n, *criteria]:
            return r.Sort(size(n), order_of(criteria))
        case "rank", _:
            at = next((i for i, each in enumerate(given) if each.isdigit()), 0)
            return r.Rank(key_of(given[:at]), size(given[at]), order_of(given[at + 1 :]))
        case "length_batch", [n]:
            return r.LengthBatch(size(n))
        case "time_batch", [period, *rest]:
            origin, flow = reference(rest)
            return r.TimeBatch(duration(period), origin, start=start, **flow)
        case "ext_timed_batch", [timestamp, period, *rest]:
            return r.ExtTimedBatch(getter(timestamp), duration(period), reference(rest)[0])
        case "time_length_batch", [period, n, *rest]:
            return r.TimeLengthBatch(duration(period), size(n), start=start, **reference(rest)[1])
        case "expr", [condition]:
            return r.Expr(meaning(condition), **variables)
        case "expr_batch", [condition, *flag]:
            return r.ExprBatch(meaning(condition), flag == ["false"], **variables)
    raise Unknown(name)


def size(text: str) -> int:
    if not text.isdigit():
        raise Unknown(text)
    return int(text)


def duration(text: str) -> int:
    """``1 sec``, ``2 minutes 5 seconds``, or a number of seconds; in ms."""
    if re.fullmatch(r"[\d.]+", text):
        return round(float(text) * 1000)
    words = text.split()
    units = [UNITS.get(unit.removesuffix("s")) for unit in words[1::2]]
    if len(words) % 2 or not all(units) or not all(re.fullmatch(r"[\d.]+", number) for number in words[::2]):
        raise Unknown(text)
    return round(sum(float(number) * (unit or 0) for number, unit in zip(words[::2], units, strict=True)))


def reference(given: list[str]) -> tuple[int | None, dict[str, bool]]:
    """The reference point and the flow control keywords of a batch window."""
    point, flow = None, ""
    for text in given:
        if re.fullmatch(r"-?\d+L?", text):
            point = int(text.removesuffix("L"))
        else:
            flow = text.upper()
    return point, {"force": "FORCE_UPDATE" in flow, "eager": "START_EAGER" in flow}


def getter(text: str) -> Getter:
    if text in GETTERS:
        return GETTERS[text]
    if not text.isidentifier():
        raise Unknown(text)
    return lambda event: event[text]


def key_of(texts: list[str]) -> Getter:
    getters = [getter(t) for t in texts]
    return getters[0] if len(getters) == 1 else lambda event: tuple(get(event) for get in getters)


def order_of(criteria: list[str]) -> Callable[[Event], Any]:
    """A key for sorting; null is lowest, hence first upwards and last downwards."""
    pairs = [(getter(c.split()[0]), c.endswith(" desc")) for c in criteria]
    return lambda event: tuple(Ordered(get(event), down) for get, down in pairs)


class Ordered:
    """One sort criterion of an event."""

    def __init__(self, value: Any, down: bool) -> None:
        self.value, self.down = value, down

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and self.value == other.value

    def __lt__(self, other: Ordered) -> bool:
        low, high = (other.value, self.value) if self.down else (self.value, other.value)
        return high is not None and (low is None or low < high)


def meaning(condition: str) -> Condition:
    if condition not in CONDITIONS:
        raise Unknown(condition)
    return CONDITIONS[condition]
