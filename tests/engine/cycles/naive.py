"""Running queries, naively: every window is a list that is looked through anew, every aggregate is made anew."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]  # with "#" its id, "@" its time
Step = Callable[[int, list[Row]], tuple[list[Row], list[Row]]]


class Leaf:
    """One window: what it holds, what waits, all that ever entered."""

    def __init__(self, window: dict[str, Any]) -> None:
        self.window = window
        self.held: list[Row] = []
        self.waiting: list[Row] = []
        self.ever: list[Row] = []
        self.shown: Row | None = None

    def step(self, now: int, incoming: list[Row]) -> tuple[list[Row], list[Row]]:
        before = list(self.held)
        self.waiting += incoming
        self.expelled: list[Row] = []
        getattr(self, self.window["kind"])(now, self.window["n"])
        new = [row for row in self.held if row not in before]
        self.ever += new
        gone = [row for row in before if row not in self.held]  # ranked ones in the order in which they are expelled
        return new, sorted(gone, key=lambda row: self.expelled.index(row) if row in self.expelled else -1)

    def sliding(self, now: int, n: int) -> None:
        takes = 1
        if self.window.get("fill") and len(self.held) < n:
            takes = n - len(self.held)
        for _ in range(min(takes, len(self.waiting))):
            self.held.append(self.waiting.pop(0))
        del self.held[: max(0, len(self.held) - n)]

    random = sliding

    def time(self, now: int, n: int) -> None:
        self.held = [row for row in self.held if now - row["@"] < n]
        most = self.window.get("max")
        taken = self.waiting if most is None else self.waiting[:most]
        self.waiting = [] if most is None else self.waiting[most:]
        if most is not None:
            oldest = sorted(self.held, key=lambda row: (row["@"], row["#"]))
            out = oldest[: max(0, len(self.held) + len(taken) - most)]
            self.held = [row for row in self.held if row not in out]
        self.held = self.held + taken

    def tumbling(self, now: int, n: int) -> None:
        self.held, self.waiting = self.waiting[:n], self.waiting[n:]

    def highest(self, now: int, n: int, sign: int = 1) -> None:
        column, group = self.window["by"], self.window.get("group", ())
        for row in self.waiting:
            if group:
                self.expel([each for each in self.held if all(each[g] == row[g] for g in group)])
            self.held.append(row)
        self.waiting = []
        while len(self.held) > n:
            worst = min(sign * row[column] for row in self.held)
            self.expel([next(row for row in self.held if sign * row[column] == worst)])

    def expel(self, rows: list[Row]) -> None:
        self.expelled += rows
        self.held = [each for each in self.held if each not in rows]

    def lowest(self, now: int, n: int) -> None:
        self.highest(now, n, -1)

    def expires(self, now: int) -> bool:
        return self.window["kind"] == "time" and any(now - row["@"] >= self.window["n"] for row in self.held)


def aggregate(name: str, values: list[Any]) -> Any:
    if name == "count":
        return len(values)
    numbers = [v for v in values if v is not None]
    if not numbers:
        return None
    n, mean = len(numbers), statistics.fmean(numbers)
    if name in ("min", "max"):
        return min(numbers) if name == "min" else max(numbers)
    if name == "geomean":
        return None if min(numbers) <= 0 else math.exp(statistics.fmean(map(math.log, numbers)))
    if name in ("variance", "stddev"):
        found = statistics.variance(numbers) if n > 1 else 0.0
        return found if name == "variance" else math.sqrt(found)
    s = math.sqrt(statistics.variance(numbers)) if n > 1 else 0.0
    if name == "skewness":
        return None if n < 3 or not s else n / ((n - 1) * (n - 2)) * sum(((v - mean) / s) ** 3 for v in numbers)
    if name == "kurtosis":
        if n < 4 or not s:
            return None
        fourth = sum(((v - mean) / s) ** 4 for v in numbers)
        return n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * fourth - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))
    made: dict[str, Callable[[list[Any]], Any]] = {
        "sum": lambda v: float(sum(v)),
        "avg": statistics.fmean,
        "median": lambda v: float(statistics.median(v)),
        "sumsq": lambda v: float(sum(x * x for x in v)),
    }
    return made[name](numbers)


class Stage:
    def __init__(self, spec: dict[str, Any], rng: random.Random | None) -> None:
        self.spec = spec
        self.leaves: dict[tuple[Any, ...], Leaf] = {}
        self.rng = rng

    def step(self, now: int, rows: list[Row], fresh: Callable[[], int]) -> tuple[list[Row], list[Row]]:
        spec, window = self.spec, self.spec["window"]
        offered: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            if "by" in window and row[window["by"]] is None:
                continue
            if self.rng is not None and self.rng.random() >= 0.5:
                continue
            offered.setdefault(tuple(row[k] for k in spec["keys"]), []).append(row)
        for key in offered:
            self.leaves.setdefault(key, Leaf(window))
        new: list[Row] = []
        dead: list[Row] = []
        for key, leaf in list(self.leaves.items()):
            entered, left = leaf.step(now, offered.get(key, []))
            kept = bool(leaf.held or leaf.waiting or spec["pinned"])
            if not spec["aggregates"]:
                new += entered
                dead += left
            else:
                shown = dict(zip(spec["keys"], key, strict=True))
                for name, column, alias, entrance in spec["aggregates"]:
                    shown[alias] = aggregate(name, [row[column] for row in (leaf.ever if entrance else leaf.held)])
                before = leaf.shown and {k: v for k, v in leaf.shown.items() if k not in "#@"}
                if not kept:
                    dead += [leaf.shown] if leaf.shown else []
                elif not same(before, shown):
                    dead += [leaf.shown] if leaf.shown else []
                    leaf.shown = {**shown, "#": fresh(), "@": now}
                    new.append(leaf.shown)
            if not kept:
                del self.leaves[key]
        return new, dead


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


class Query:
    """One partition, seen with one status: `lots` are the rows of each cycle that shows any."""

    def __init__(self, stages: list[dict[str, Any]], status: str, seed: int, weight: float, every: int | None) -> None:
        chances = iter(range(100))
        self.stages = [
            Stage(s, random.Random(seed + next(chances)) if s["window"]["kind"] == "random" else None) for s in stages
        ]
        self.status = status
        self.weight = weight
        self.every = every
        self.next = every
        self.now = 0
        self.acc = 0.0
        self.ids = 0
        self.waiting: list[Row] = []
        self.relation: list[Row] = []
        self.lots: list[list[Row]] = []

    def fresh(self) -> int:
        self.ids += 1
        return self.ids

    def together(self, events: list[Row]) -> None:
        for event in events:
            if self.stages[0].spec["where"](event):
                self.waiting.append({**event, "#": self.fresh(), "@": self.now})
                self.acc = round(self.acc + self.weight, 9)
        self.run()

    def advance(self, to: int) -> None:
        while self.now < to:
            self.now += 1
            self.run()

    def caused(self) -> bool:
        leaves = [leaf for stage in self.stages for leaf in stage.leaves.values()]
        return self.acc >= 1.0 or any(leaf.waiting or leaf.expires(self.now) for leaf in leaves)

    def run(self) -> None:
        if self.next is not None and self.every is not None:
            if self.now == self.next:
                self.next += self.every
                self.cycle()
            return
        while self.caused():
            self.cycle()

    def cycle(self) -> None:
        self.acc = 0.0
        rows, self.waiting = self.waiting, []
        new: list[Row] = []
        dead: list[Row] = []
        for place, stage in enumerate(self.stages):
            if place:
                taken = new if stage.spec["takes"] == "new" else dead
                rows = [{**row, "#": self.fresh()} for row in taken if stage.spec["where"](row)]
            new, dead = stage.step(self.now, rows, self.fresh)
        gone = [row["#"] for row in dead]
        self.relation = [row for row in self.relation if row["#"] not in gone] + new
        shown = {"new": new, "dead": dead, "not dead": self.relation, "": self.relation + dead}[self.status]
        if shown:
            lot = sorted(shown, key=lambda row: row["#"])
            self.lots.append([{k: v for k, v in row.items() if k not in "#@"} for row in lot])
