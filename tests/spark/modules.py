"""Random modules whose statements may be divided among tasks: by key, category, hash, time, and whatever feeds them.

Events of four types, of which one inherits another and one holds events; all that is drawn may be refused when it is
compiled, and which it is does not matter here.
"""

from __future__ import annotations

from typing import Any

from tests.engine.generated_statements import VARIABLES, Statements
from tests.engine.histories import GAPS
from tests.spark.chains import CHAINS, ENDS, MORE_TYPES, OUTPUTS

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """create schema E(k string, g int, x int, n long, d double, t long, b boolean);
create schema F(y int) inherits E;
create schema B(k string, g int, x int, n long, d double, t long, b boolean, c long);
create schema Item(q int, w double);
create schema L(k string, g int, items Item[]);
create schema S(k string, g int, x int, n long, d double, t long, b boolean);
create schema Out(k string, s int);
"""
CONTEXTS = (
    "partition by k from E, k from B, k from L, k from S, k from Out",
    "partition by k from E, k from B, k from L, k from S, k from Out",
    "partition by k and g from E, k and g from B, k and g from L, k and g from S",
    "partition by k from E({w}), k from B",
    "partition by k from F, k from B",
    "group x < 1 as low, group x between 0 and 3 as middle, group d > 1 as large from E",
    "group x < 1 as low, group x > 2 as high from E(g != 1)",
    "coalesce by consistent_hash_crc32(k) from E, consistent_hash_crc32(k) from B, consistent_hash_crc32(k) from L granularity 4",
    "coalesce by hash_code(k, g) from E(x is not null), hash_code(k, g) from B granularity 5",
    "partition by k from E, k from B terminated after {u}",
    "partition by k from E, k from B initiated by E({w}) terminated by B({w})",
    "partition by k from E, k from B terminated by E(x = 3)",
    "context A partition by k from E, k from B, k from L, k from S, context Z start E({w}) end after {u}",
    "context A partition by k from E, k from B, context Z initiated by B({w}) terminated by E({w})",
    "context A partition by k from E, k from B, context Z initiated by E as e terminated after {u}",
    "context A partition by k from E, k from B, context Z initiated by distinct(e.g) E as e terminated after {u}",
    "context A partition by k from E, k from B, context Z start @now end after {u}",
    "context A partition by k from E, k from B, context Z start pattern [every a=E(x > 1) -> B] end pattern [timer:interval(2 sec)]",
    "context A partition by k from E, k from B, context Z partition by g from E, g from B",
    "context A partition by k from E, k from B, context Z coalesce by hash_code(g) from E, hash_code(g) from B granularity 2",
    "context A group x < 1 as low, group x > 0 as other from E, context Z partition by k from E",
    "context A partition by k from E, context Z group x < 1 as low, group x > 0 as other from E",
    "context A coalesce by hash_code(k) from E, hash_code(k) from B granularity 3, context Z partition by g from E, g from B",
    "context A start (0, *, *, *, *) end (1, *, *, *, *), context Z partition by k from E, k from B",
    "initiated by E({w}) terminated after {u}",
    "start B({w}) end E({w})",
)
VIEWS = "|#length({s})|#time({p})|#time({p})|#keepall|#lastevent|#unique(k)|#groupwin(k)#length({s})|#groupwin(k)#time({p})|#groupwin(g)#length(2)|#time_batch({p})|#length_batch({s})|#ext_timed(t, {p})|#sort(3, x)|#firstevent|#groupwin(k)#lastevent|#rank(k, 3, x)"
JOINED = "a.k = z.k|a.k = z.k|a.k = z.k and a.g = z.g|a.k = z.k and a.x > z.x|a.k = z.k and z.n != a.n|a.g = z.g|a.k = z.k and a.g = z.g"
OUTER = "left outer|right outer|full outer|inner|left outer"
SIDES = "a.x as ax, z.n as zn|a.k as k, z.d as d, z.x as x|a.k as k, z.g as g, count(*) as c, sum(z.x) as s|a.k as k, a.x + z.n as q, prior(1, a.x) as p|a.x as ax, prev(1, z.x) as pz, nth(z.x, 1) as nz"
INNER = "max(x)|sum(n)|count(*)|last(x)|x|window(x)|nth(x, 1)|avg(d)|min(g)"
KEYED = " as i where i.k = e.k| as i where i.k = e.k and i.g = e.g| as i where i.k = e.k and i.x > e.x| as i where i.g = e.g||"
PATTERNS = (
    "every a={T} -> z={U}({key}{w})",
    "every a={T}({w}) -> z={U}({key}{w}) where timer:within({p})",
    "every a={T}({w}) -> (timer:interval({p}) and not {U}({key}{w}))",
    "every a={T} -> [2] z={U}({keyed})",
    "every a={T} -> z={U}({key}{w}) until B({key}x = 3)",
    "every a={T}({w}) -> [1:3] z={U}({keyed}) until timer:interval({p})",
    "every a={T} -> (z={U}({key}{w}) and not B({key}x > 2))",
    "every a={T} -> (z={U}({key}{w}) or timer:interval({p}))",
    "every (a={T}({w}) -> z={U}({key}x > a.x))",
    "every-distinct(a.k, a.g) a={T} -> z={U}({keyed})",
    "every-distinct(a.k, {p}) a={T} -> z={U}({key}{w})",
    "a={T}({w}) -> every z={U}({keyed})",
    "every a={T} -> z={U}({keyed}) -> y=B({key}x != z.x)",
    "every timer:interval({p}) -> a={T} -> z={U}({keyed})",
    "every a={T} while (a.x > 0) -> z={U}({keyed})",
    "every a={T} -> every z={U}({key}{w}) where timer:within({p})",
    "every a={T} -> z={U}({keyed}) -> timer:at(*, *, *, *, *, */5)",
    "not {T}({w}) or a={T}({w})",
    "a={T}({w}) or not {U}({w})",
    "not {U}({w}) -> every a={T} -> z={U}({keyed})",
    "every (a={T}({w}) and not {U}({w})) or not B({w})",
    "timer:interval(0) -> a={T}({w}) -> z={U}({key}{w})",
    "not {U}({w}) -> (timer:interval({p}) and not a={T}({w}))",
    "[0:2] a={T}({w}) until z={U}({keyed})",
)
RECOGNIZED = (
    "pattern (p q+) define q as q.x > p.x",
    "pattern (p q* r) define q as q.x > prev(q.x, 1), r as r.x < 2",
    "after match skip to next row pattern (p q) define q as q.d > p.d",
    "after match skip to current row pattern (p q? r) define p as p.x > 0, r as r.g != p.g",
    "pattern (p q*) interval {u} define q as q.x >= p.x",
    "all matches pattern (p q*) interval {u} or terminated define q as q.x > 0",
    "pattern (p (q | r)) define q as q.x > 2, r as r.x < 1",
    "pattern (match_recognize_permute(p, q)) define p as p.x > 1, q as q.x < 1",
)
STORED = (
    "{c}create window W#time({p}) as {T}; {c}insert into W select * from {T}; {c}select irstream k, x, d from W{o}",
    "{c}create window W#time({p}) as {T}; {c}insert into W select * from {T}; {c}select {i} as m from W{v}{o}",
    "{c}create window W{v} as {T}; {c}insert into W select * from {T}; {c}select irstream k, sum(x) as s from W group by k{o}",
    "{c}create window W{v} as {T}; {c}insert into W select * from {T}({w}); {c}on B as z select w.x as p, z.x as q from W as w where w.k = z.k order by w.x",
    "{c}create window W#keepall as {T}; {c}insert into W select * from {T}; {c}on B({w}) as z delete from W as w where w.k = z.k; {c}select irstream k, count(*) as n from W group by k{o}",
    "{c}create window W#keepall as {T}; {c}insert into W select * from {T}; {c}on B({w}) as z update W as w set x = z.x, d = w.d + 1 where w.k = z.k; {c}select irstream k, x, d from W{o}",
    "{c}create window W#unique(k) as {T}; {c}insert into W select * from {T}; {c}on B as z select sum(w.x) as p, count(*) as n from W as w where w.k = z.k",
    "{c}create window W{v} as {T}; {c}insert into W select * from {T}; {c}on B as z select and delete w.x as p from W as w where w.k = z.k and w.g = z.g",
    "{c}create window W{v} as {T}; {c}insert into W select * from {T}; {c}select z.x as p, w.x as q from B as z unidirectional, W as w where w.k = z.k",
    "{c}create window W#groupwin(k)#length(2) as {T}; {c}insert into W select * from {T}; {c}select x, (select {i} from W as w where w.k = e.k) as m from B as e",
    "{c}create window W#keepall as (k string, s int); {c}on {T} as e merge W as w where w.k = e.k when matched and e.x > 3 then delete when matched then update set s = w.s + e.x when not matched then insert select e.k as k, e.x as s; {c}select irstream k, s from W{o}",
    "{c}create window W#keepall as (k string, s int); {c}on {T} as e merge W as w where w.k = e.k when matched then update set s = e.x, w.k = e.k then insert into Out select w.k as k, w.s as s when not matched and e.g > 0 then insert select e.k as k, e.x as s; {c}select k, s from Out{o}",
    "{c}create table T(k string primary key, n count(*), s sum(int)); {c}into table T select count(*) as n, sum(x) as s from {T} group by k; {c}select k, T[k].n as n, T[k].s as s from B",
    "{c}create table T(k string primary key, n count(*), w window(*) @type(E)); {c}into table T select count(*) as n, window(*) as w from E#length(3) group by k; {c}select T[k].n as n, T[k].w.sumOf(i => i.x) as s from B",
    "{c}create table T(k string primary key, g int primary key, n count(*)); {c}into table T select count(*) as n from {T}#groupwin(k)#length(3) group by k, g; {c}on B as z select t.g as g, t.n as n from T as t where t.k = z.k order by t.g",
    "{c}create table T(k string primary key, s int); {c}on {T} as e merge T as t where t.k = e.k when matched then update set s = t.s + e.x when not matched then insert select e.k as k, e.x as s; {c}select z.x as p, t.s as s from B as z unidirectional, T as t where t.k = z.k",
    "{c}create table T(k string primary key, n count(*)); {c}into table T select count(*) as n from {T} group by k; {c}on B({w}) as z delete from T as t where t.k = z.k; {c}select T[k].n as n from B",
)
FED = (
    "{c}insert into S select k, g, x, n, d, t, b from {T}{v}; {c}",
    "{c}insert into S select k, g, x + 1 as x, n, d, t, b from {T}({w}); {c}",
    "{c}insert irstream into S select k, g, x, n, d, t, b from {T}#length({s}); {c}",
    "{c}insert rstream into S select k, g, x, n, d, t, b from {T}#time({p}); {c}",
    "{c}insert irstream into S select k, g, x, n, d, t, b from {T}{v}{o}; {c}",
    "{c}insert into S3 select * from {T}#time_batch({p}); {c}insert rstream into S select k, g, x, n, d, t, b from S3{v}; {c}",
    "{c}on {T} insert into S select k, g, x, n, d, t, b where {w} insert into S2 select k, x; {c}",
    "{c}on {T} as e insert into S2 select k, x where {w} insert into S select e.* where {w} output all; {c}",
    "{c}insert into S select a.k as k, a.g as g, z.x as x, a.n as n, z.d as d, z.t as t, z.b as b from pattern [every a=E -> z=B(k = a.k)]; {c}",
    "{c}insert into S select k, g, sum(x) as x, max(n) as n, avg(d) as d, max(t) as t, last(b) as b from {T}{v} group by k, g; {c}",
)


class Modules(Statements):
    """Draws modules; the same `seed`, the same module. Its last statement is ``s``."""

    def module_text(self) -> str:
        """A module: maybe with a context, something that feeds the statement, something that changes events."""
        self._context = self.chance(0.6)
        self._failing = self.random.choice((0.0, 0.0, 0.3))
        parts = [SCHEMA + MORE_TYPES, VARIABLES]
        if self._context:
            parts.append(f"create context Each {self._filled(self.random.choice(CONTEXTS))}")
        if self.chance(0.08):
            parts.append(self._filled("update istream {T} set x = x + 1 where {w}"))
        if self.chance(0.05):
            parts.append("on E(x = 4) set N = g + 1, GO = b")
        self._types = ["E", "E", "F", "B"]
        if self.chance(0.2):
            parts.append(self._filled(self.random.choice(FED)).rsplit(";", 1)[0])
            self._types = ["S"]
        drawn = self._filled(self._statement())
        *before, last = map(self._annotated, drawn.split("; "))
        return ";\n".join([*parts, *before, f"@name('s') {last}"])

    def _annotated(self, statement: str) -> str:
        """With a priority, or dropping events for others."""
        if statement.startswith("create context"):
            return statement
        priority = f"@Priority({self.random.choice((2, 5))}) " * self.chance(0.08)
        return f"{priority}{'@Drop ' * self.chance(0.04)}{statement}"

    def _filled(self, text: str) -> str:
        """With a choice for each of the placeholders."""
        own = {
            "{c}": "context Each " * self._context,
            "{key}": "" if self._context and self.chance(0.6) else "k = a.k, ",
            "{keyed}": "k = a.k" if not self._context or self.chance(0.4) else self.one("{w}"),
        }
        for name, of in own.items():
            text = text.replace(name, of)
        types = getattr(self, "_types", ["E", "E", "F", "B"])
        for name, draw in (
            ("{O}", lambda: self.one(OUTPUTS)),
            ("{X}", lambda: self.one(ENDS)),
            ("{T}", lambda: self.random.choice(types)),
            ("{U}", lambda: self.random.choice(["E", "B", "F"])),
            ("{v}", lambda: self.one(VIEWS)),
            ("{o}", lambda: self._clauses()),
            ("{i}", lambda: self.one(INNER)),
            ("{w}", lambda: "odd(x)" if self.chance(self._failing) else self.one("{w}")),
            ("{p}", lambda: self.one("{p}")),
            ("{u}", lambda: self.one("1 sec|500 msec|2 sec 500 msec|7 sec")),
            ("{s}", lambda: self.one("{s}")),
        ):
            while name in text:
                text = text.replace(name, draw(), 1)
        return text

    def _statement(self) -> str:
        kinds = (
            "select",
            "select",
            "join",
            "subquery",
            "pattern",
            "recognize",
            "stores",
            "contained",
            "chain",
            "chain",
        )
        return str(getattr(self, f"_{self.random.choice(kinds)}")())

    def _clauses(self) -> str:
        """Behind a select without aggregates."""
        text = ""
        if self.chance(0.2):
            which = self.random.choice(("", "all ", "first ", "first ", "last ", "snapshot "))
            text += f" output {which}{self.one(self.rates)}"
        return text

    rates = (
        "every 2 events|every 1 sec|every 700 msec|when count_insert >= 2|when count_remove > 0|at (*, *, *, *, *, */5)"
        "|when count_insert_total > 4 and count_insert > 0|when last_output_timestamp + 1500 < current_timestamp"
        "|when terminated|every 2 events and when terminated"
    )

    def _select(self) -> str:
        windows, count, derived = self.windows()
        if not self._context and self.chance(0.6):
            windows = f"#groupwin(k){windows}" if not windows.startswith("#groupwin") and windows else windows
        where = f" where {self.one('{w}')}" if not derived and self.chance(0.2) else ""
        selector = self.random.choice(("", "irstream ", "irstream ", "rstream "))
        columns, clauses = self._columns(count, derived)
        if not self._context and "group by" not in clauses and self.chance(0.5) and "a0" in columns:
            clauses = f" group by k{clauses}"
        if self._context and self.chance(0.2):
            columns += ", context.id as cid" if self.chance(0.2) else ", context.name as cn"
        if self.chance(0.25):
            which = self.random.choice(("", "all ", "first ", "last ", "snapshot "))
            clauses += f" output {which}{self.one(self.rates)}"
        if not derived and self.chance(0.1):
            clauses += f" order by {self.one('x desc|k, x|g desc, d')}"
        if self.chance(0.05):
            clauses += " limit 2"
        filtered = "({w})" * self.chance(0.25)
        return f"{{c}}select {selector}{columns} from {{T}}{filtered}{windows}{where}{clauses}"

    def _join(self) -> str:
        selector = self.random.choice(("", "irstream ", ""))
        columns, on = self.one(SIDES), self.one(JOINED)
        a, z = (f"{{{name}}}{'({w})' * self.chance(0.15)}{self.one(VIEWS)}" for name in "TU")
        grouped = " group by a.k, z.g" if "count(*)" in columns else ""
        if self.chance(0.5):
            text = f"{a} as a {self.one(OUTER)} join {z} as z on {on}"
        else:
            text = f"{a} as a{' unidirectional' * self.chance(0.2)}, {z} as z where {on}"
            if self.chance(0.2):
                text = f"{a} as a, {z} as z, B{self.one(VIEWS)} as y where {on} and y.k = z.k"
        return f"{{c}}select {selector}{columns} from {text}{grouped}{self._clauses()}"

    def _subquery(self) -> str:
        inner = f"{{U}}{'({w})' * self.chance(0.2)}{self.one(VIEWS)}"
        keyed = self.one(KEYED)
        form = self.random.choice(("value", "value", "exists", "in", "all", "aggregate"))
        outer = f"{{T}}{self.one(VIEWS) if self.chance(0.3) else ''} as e"
        if form == "value":
            return (
                f"{{c}}select k, x, (select {self.one(INNER)} from {inner}{keyed}) as m from {outer}{self._clauses()}"
            )
        if form == "aggregate":
            return f"{{c}}select k, sum(x) as s, (select {self.one(INNER)} from {inner}{keyed}) as m from {outer} group by k"
        if form == "exists":
            return (
                f"{{c}}select k, x from {outer} where {'not ' * self.chance(0.3)}exists (select * from {inner}{keyed})"
            )
        if form == "in":
            return f"{{c}}select k, x from {outer} where x {'not ' * self.chance(0.3)}in (select x from {inner}{keyed})"
        return f"{{c}}select k, x from {outer} where x {self.one('> all|< any|>= some')} (select x from {inner}{keyed})"

    def _pattern(self) -> str:
        pattern = self.random.choice(PATTERNS)
        z = "z[0].x" if "] z=" in pattern or "until" in pattern else "z.x"
        a = "a[0]" if "] a=" in pattern else "a"
        columns = f"{a}.k as k, {a}.x as ax{f', {z} as zx' if 'z=' in pattern else ''}"
        view = self.one("||#length(2)|#time({p})|#keepall")
        if view and self.chance(0.5):
            columns = f"{a}.k as k, count(*) as n, sum({a}.x) as s"
        return f"{{c}}select irstream {columns} from pattern [{pattern}]{view}{f' group by {a}.k' * ('count(*)' in columns)}{self._clauses()}"

    def _recognize(self) -> str:
        by = (
            "" if self._context and self.chance(0.7) else self.one("partition by k |partition by k, g |partition by k ")
        )
        what = self.random.choice(RECOGNIZED)
        second = "q" if " q)" in what else "q[0]" if "q+" in what or "q*" in what else "p"
        return (
            f"{{c}}select * from {{T}}{self.one('||#keepall|#length(5)|#time({p})')} match_recognize ({by}measures p.k as k, p.x as px, "
            f"{second}.x as qx {what})"
        )

    def _stores(self) -> str:
        return self.random.choice(STORED)

    def _chain(self) -> str:
        return self.random.choice(CHAINS)

    def _contained(self) -> str:
        columns, clauses = self.random.choice(
            (
                ("k, q, w", ""),
                ("k, sum(q) as s, count(*) as n", " group by k"),
                ("sum(q) as s, max(w) as m", ""),
                ("k, q, prior(1, q) as p", ""),
            )
        )
        view = self.one("||#length({s})|#time({p})|#groupwin(k)#length(2)|#keepall")
        source = self.random.choice(("L[select k, g, q, w from items]", "L[select k, q, w from items where q > 1]"))
        return f"{{c}}select irstream {columns} from {source}{view}{clauses}{self._clauses()}"

    def history(self, most: int = 60) -> list[tuple[str, int, dict[str, Any]]]:
        """Events of all types, with ties, nulls, and now and then none for long."""
        pick, time, found = self.random.choice, 0, []
        keys = ("a", "b", "c", "dd", None)[: self.random.randint(1, 5)]
        for _ in range(most):
            time += 100_000 if self.chance(0.01) else pick(GAPS)
            name = pick(("E", "E", "E", "F", "B", "B", "L"))
            values: dict[str, Any] = {"k": pick(keys), "g": pick((0, 1, 2))}
            if name == "L":
                values["items"] = [
                    {"q": pick((None, 0, 1, 2, 3)), "w": pick((None, 0.5, 2.0))} for _ in range(pick((0, 1, 3)))
                ]
            else:
                values |= {
                    "x": pick((None, -2, -1, 0, 1, 2, 3, 4)),
                    "n": pick((None, 0, 1, 2, 3)),
                    "d": pick((None, 0.5, -1.5, 2.0, 3.25)),
                    "t": pick((time, time, time, time - 500)),
                    "b": pick((True, False, None)),
                }
            values |= {"y": pick((0, 1))} if name == "F" else {"c": pick((0, 1, 5))} if name == "B" else {}
            found.append((name, time, values))
        return found
