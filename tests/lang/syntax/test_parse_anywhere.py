"""Ranges and time periods may be of any expression, wherever the reference manual lets an expression stand."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.syntax.reader.parser import parse_epl

UNITS = ("years", "months", "weeks", "days", "hours", "min", "sec", "milliseconds", "microseconds")

LEAVES = (
    *("a", "a.b", "a.b.c", "a[0].b", "a.b[1].c", "m('k')", "m('k').n", "a?.b", "`select`.b", "`x y`", "min", "last"),
    *(
        "1",
        "-2",
        "3L",
        "1.5",
        ".5f",
        "0x1F",
        "'text'",
        "null",
        "true",
        "current_timestamp",
        "context.id",
        "context.c.key1",
    ),
)


def expression(chance: random.Random, depth: int) -> str:
    """A random expression: of every operator and form that the manual's chapters on expressions have."""
    if depth == 0:
        return chance.choice(LEAVES)

    def inner() -> str:
        return expression(chance, chance.randrange(depth))

    def operand() -> str:
        return chance.choice((chance.choice(LEAVES), f"({inner()})"))

    forms: tuple[Callable[[], str], ...] = (
        lambda: f"({inner()})",
        lambda: f"{operand()} + {operand()} * {operand()}",
        lambda: f"{operand()} - {operand()} / {operand()} % 2",
        lambda: f"{operand()} || {operand()}",
        lambda: f"{operand()} & {operand()}",
        lambda: f"{operand()} > {operand()} and not {operand()} = {operand()}",
        lambda: f"{operand()} is not null or {operand()} != {operand()}",
        lambda: f"case when {inner()} then {inner()} else {inner()} end",
        lambda: f"case {operand()} when {inner()} then {inner()} end",
        lambda: f"{operand()} in ({inner()}, {inner()})",
        lambda: f"{operand()} in [{inner()}:{inner()}]",
        lambda: f"{operand()} between {operand()} and {operand()}",
        lambda: f"{operand()} not like 'a%' escape '!'",
        lambda: f"{operand()} regexp {operand()}",
        lambda: f"{operand()} >= all ({inner()}, {inner()})",
        lambda: f"cast({inner()}, int)",
        lambda: f"instanceof({inner()}, A, b.C)",
        lambda: f"Math.abs({inner()})",
        lambda: f"a.method({inner()}, {inner()}).other().p",
        lambda: f"({inner()}).p[{inner()}]",
        lambda: f"items.where(v => v.p > {operand()}).countOf()",
        lambda: f"t.plus({period(chance, depth - 1)})",
        lambda: f"sum({inner()}, filter: {inner()}, group_by: (a, b.c))",
        lambda: f"count(distinct {inner()})",
        lambda: f"prev({inner()}, a.b)",
        lambda: f"{{{inner()}, {inner()}}}",
        lambda: f"new {{p, q = {inner()}}}",
        lambda: f"new B[{inner()}]",
        lambda: "(select max(b.p) from B.win:length(3) as b where b.q = a.q)",
        lambda: f"exists (select * from B#keepall where p in [a.lo:{inner()}])",
        lambda: f"{operand()} in (select p from B#time({period(chance, depth - 1)}))",
    )
    return chance.choice(forms)()


def period(chance: random.Random, depth: int) -> str:
    """A time period: units from large to small, each with any expression before it."""
    units = sorted(chance.sample(range(len(UNITS)), chance.choice((1, 1, 2, 3))))
    parts = [expression(chance, depth) for _ in units]
    shown = ["1" if part[0] in "'\"" else part for part in parts]  # a text is no amount
    return " ".join(f"{part} {UNITS[unit]}" for part, unit in zip(shown, units, strict=True))


def range_of(chance: random.Random, depth: int) -> str:
    negated, opening, closing = chance.choice(("", "not ")), chance.choice("[("), chance.choice("])")
    low, high = expression(chance, depth), expression(chance, depth)
    blank = chance.choice(("", " "))
    value = chance.choice(("v", "a.v", "(a.v + 1)", "f(a.v)"))
    return f"{value} {negated}in {opening}{low}{blank}:{blank}{high}{closing}"


# Where the manual lets any expression stand.
CONDITIONS = (
    "select {} as x from A",
    "select case when {} then 1 end as x, f({}) as y from A",
    "select a.items.where(v => {}) as x from A as a",
    "select sum(p, filter: {}) from A",
    "select * from A({}) as a",
    "select * from A(p > 1, {})#length(3)",
    "select * from A where {}",
    "select p, sum(q) from A group by {} having {}",
    "select p, sum(q) from A group by rollup(p, {})",
    "select * from A order by {} desc, p",
    "select * from A#expr({})",
    "select * from A#unique({})#groupwin({})",
    "select * from A.std:unique({})",
    "select * from A as a inner join B#keepall as b on {}",
    "select * from A, B where {}",
    "select (select p from B#keepall where {}) as x from A",
    "select * from A where exists (select * from B({}))",
    "select * from pattern [every a=A({}) -> b=B(p = 1, {})]",
    "select * from pattern [every-distinct({}) a=A]",
    "select * from pattern [[f({})] a=A until B({})]",
    "select * from pattern [a=A while ({})]",
    "select * from pattern [a=A -[f({})]> b=B]",
    "select * from A output when {} then set v = {}",
    "insert into C select {} as x from A",
    "on A set v = {}",
    "on A as a select * from W as w where {}",
    "on A as a delete from W as w where {}",
    "on A as a update W as w set p = {} where {}",
    "on A as a merge W as w where {} when matched and {} then update set p = {} where {}",
    "on A as a merge W as w where {} when not matched and {} then insert select {} as p where {}",
    "on A insert into B select {} as p where {} insert into C select * output all",
    "update istream A set p = {} where {}",
    "create variable boolean v = {}",
    "create window W#keepall as A insert where {}",
    "create expression f {{(a, b) => {}}}",
    "expression f {{a => {}}} select f(x) from A as x",
    "create context C group by {} as g from A",
    "create context C start A({}) end pattern [b=B({})]",
    "create context C initiated by distinct({}) A as a terminated by B({})",
    "create context C coalesce by consistent_hash_crc32(p) from A({}) granularity 3",
    "select * from A match_recognize (partition by {} measures {} as x pattern (A B) define A as {}, B as {})",
)

# Where it lets time periods stand.
PERIODS = (
    "select * from A#time({})",
    "select * from A.win:time({})#length(3)",
    "select * from A#ext_timed(ts, {})",
    "select * from A#time_batch({}, 5L, 'FORCE_UPDATE')",
    "select * from A#time_length_batch({}, 10)",
    "select * from A#time_order(a.ts, {})",
    "select * from A#keepall, B#time_accum({}) as b",
    "select (select p from B#firsttime({})) as x from A",
    "select p.plus({}) as x from A where p.minus({}) > q",
    "select a.before(b, {}, {}) as x from A as a, B as b",
    "select * from pattern [every a=A -> timer:interval({})]",
    "select * from pattern [a=A where timer:within({})]",
    "select * from pattern [(every a=A) where timer:withinmax({}, 3)]",
    "select * from pattern [every-distinct(a.p, {}) a=A]",
    "select * from pattern [timer:schedule(date: '2024-01-01', period: {}, repetitions: 3)]",
    "create context C start A end after {}",
    "create context C start after {} end after {}",
    "create context C initiated @now and after {} terminated after {}",
    "create context C initiated by pattern [timer:interval({})] terminated after {}",
    "create window W#time({}) as A",
    "select * from A match_recognize (measures a.p as x pattern (a b) interval {} or terminated define b as b.p > 1)",
    "select * from A match_recognize (measures a.p as x pattern (a b) interval {} define b as b.p > 1)",
)

# Whose amounts are single values: `events` may stand in place of a unit.
RATES = (
    "select * from A output every {}",
    "select * from A output last every {} and when terminated",
    "select * from A output after {} snapshot every {}",
)


def filled(template: str, make: Callable[[], str]) -> str:
    return template.format(*[make() for _ in range(template.count("{}"))])


def check(template: str, drawn: Callable[[random.Random], str], kind: type[ast.Expr]) -> None:
    """What is drawn parses at each place of `template`, as a node of `kind`."""
    chance = random.Random(template)
    for _ in range(6):
        text = filled(template, lambda: drawn(chance))
        (statement,) = parse_epl(text).statements
        found = [node for node in walk(statement) if isinstance(node, kind)]
        assert len(found) >= template.count("{}"), text


@pytest.mark.parametrize("template", CONDITIONS)
def test_ranges(template: str) -> None:
    check(template, lambda chance: range_of(chance, chance.randrange(4)), ast.In)


@pytest.mark.parametrize("template", PERIODS)
def test_periods(template: str) -> None:
    check(template, lambda chance: period(chance, chance.randrange(4)), ast.TimePeriod)


@pytest.mark.parametrize("template", RATES)
def test_rates(template: str) -> None:
    amounts = "10", "2.5", "v", "a.v", "(a + f(b))"
    check(template, lambda chance: f"{chance.choice(amounts)} {chance.choice(UNITS)}", ast.TimePeriod)


@pytest.mark.parametrize(
    "field", ["{}", "{}:{}", "*/{}", "[{}, {}:{}, */{}]", "{} last", "{} weekday", "lastweekday", "last", "*"]
)
def test_crontab_fields(field: str) -> None:
    """Bounds of crontab ranges are expressions; those before a word and behind ``*/`` single values."""
    chance = random.Random(field)
    single = " " in field.replace(", ", "") or "/" in field
    for _ in range(6):
        given = field.format(*[_bound(chance, single=single) for _ in range(field.count("{}"))])
        for text in (
            f"select * from pattern [every timer:at({given}, *, {given}, *, *)]",
            f"select * from A output at ({given}, *, {given}, *, *)",
            f"create context C start ({given}, 9, *, *, *) end (*, {given}, *, *, *)",
        ):
            parse_epl(text)


def _bound(chance: random.Random, *, single: bool) -> str:
    if single:
        return chance.choice(("3", "v", "a.v", "a.b.c", "(a.v + 1)", "f(a.v)"))
    return expression(chance, chance.randrange(3))
