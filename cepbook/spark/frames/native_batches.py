"""Batches that Spark calculates itself, as groups: ``ext_timed_batch`` on a grid, see `forms`.

All is text of Spark SQL, as in `casts`: Spark takes a tenth of the time to plan it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.spark.frames.clock_bounds import bounded_event_time
from cepbook.spark.frames.job_output import JobOutput
from cepbook.spark.frames.native_filter import delivery_metadata
from cepbook.spark.frames.sql_conditions import condition_sql
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.program import BASE_AGGREGATE, TaskProgram, VectorizedWindow
from cepbook.spark.task.stream_columns import CLOCK_END, SEQ, TIME, Sql
from cepbook.spark.task.type_mapping import type_mapping_of

_BITS = 63  # of a place within a batch: what of the time there is, then the sequence number
_LOW = 2**32 - 1
BaseColumns = Mapping[tuple[str, str], str]
"""What aggregates are made of (`_bases`), by its name and the property: a column."""


def native_batches_output(
    form: VectorizedWindow, program: TaskProgram, events: SqlQuery, about: Collection[str]
) -> JobOutput:
    """What a program of the one statement delivers of its tagged events; of time and sequence number (`about`) what is
    asked for.
    """
    type_name = form.event_type
    ((_, _, properties, columns),) = program.inputs
    ((name, output),) = program.outputs
    place = dict(zip(properties, columns, strict=True))
    if form.filter is not None:
        events = events.where(condition_sql(form.filter, place))
    at = bounded_event_time(TIME, type_name, program.start, program.config.second)
    wanted = [c for c in form.columns if isinstance(c, nodes.AggregateCall)]
    bases = {base: f"b{i}" for i, base in enumerate(_bases(wanted))}
    own = [f"{key} AS k{i}" for i, key in enumerate(_keyed(form, place, program.nested[type_name]))]
    read = [*own, *dict.fromkeys(place[p] for _, p in bases if p)]
    made = [f"{_aggregate(name, place[p] if p else '1')} AS {column}" for (name, p), column in bases.items()]
    if {"time", "sequence"}.isdisjoint(about):
        rows = _in_batches(form, events.select(TIME, *_apart(columns)), at, read, made)
    else:
        rows = _placed(form, events.select(f"{at} AS {TIME}", SEQ, *_apart(columns)), read, made)
    keys = {key: f"k{i}" for i, key in enumerate(form.keys)}
    shown = [_value(c, bases) if isinstance(c, nodes.AggregateCall) else keys[c] for c in form.columns]
    types = [type_mapping_of(t, program.nested).ddl for t in output.properties.values()]
    values = [f"CAST({v} AS {t})" for v, t in zip(shown, types, strict=True)]
    return JobOutput(rows, delivery_metadata(name), [values], failing=False)


def _apart(columns: Sequence[str]) -> list[str]:
    """The columns that are not the time, which some properties are."""
    return [column for column in columns if column != TIME]


def _bases(calls: Sequence[nodes.AggregateCall]) -> list[tuple[str, str]]:
    """What aggregates are made of: (name, property)."""
    found: dict[tuple[str, str], None] = {}
    for call in calls:
        of = call.args[0].name if call.args and isinstance(call.args[0], expressions.Prop) else ""
        made = BASE_AGGREGATE[call.name]
        if made == "total":
            parts = ("low", "high") if call.args[0].type.name == "long" else (made,)
            found |= {(part, of): None for part in (*parts, *(["number"] if call.name == "avg" else []))}
        else:
            found[(made if of else "rows", of)] = None
    return list(found)


def _aggregate(name: str, value: Sql) -> Sql:
    """A base as an aggregate of Spark; sums of long are added in halves, which do not overflow."""
    return {
        "lowest": f"min({value})",
        "highest": f"max({value})",
        "rows": "count(1)",
        "number": f"count({value})",
        "low": f"sum({value} & {_LOW}L)",
        "high": f"sum(shiftright({value}, 32))",
        "total": f"sum(CAST({value} AS BIGINT))",
    }[name]


def _value(call: nodes.AggregateCall, bases: BaseColumns) -> Sql:
    """The value of an aggregate, as the engine has it: sums wrap at the width of Java's type."""
    of = call.args[0] if call.args else None
    name = of.name if isinstance(of, expressions.Prop) else ""
    made = BASE_AGGREGATE[call.name]
    if made != "total":
        return bases[made if name else "rows", name]
    assert of is not None
    if of.type.name == "long":
        low, high = bases["low", name], bases["high", name]
        total = f"shiftleft({high} + shiftright({low}, 32), 32) | ({low} & {_LOW}L)"
    else:
        total = f"shiftright(shiftleft({bases['total', name]}, 32), 32)"
    if call.name == "sum":
        return total
    number = bases["number", name]
    return f"CASE WHEN {number} > 0 THEN CAST({total} AS DOUBLE) / {number} END"


def _in_batches(
    form: VectorizedWindow, events: SqlQuery, time: Sql, read: Sequence[Sql], made: Sequence[Sql]
) -> SqlQuery:
    """A row for each batch that another one follows: keys and what is `made` of the columns `read`."""
    shift = form.period * (CLOCK_END // form.period + 2) - form.reference  # so that none has a number below 0
    events = events.select(f"({time} + {shift}L) div {form.period}L AS begin", *read)
    return _followed(events.grouped(["begin", *_keys(form)], made), _keys(form), made, ["begin"])


def _placed(form: VectorizedWindow, events: SqlQuery, read: Sequence[Sql], made: Sequence[Sql]) -> SqlQuery:
    """As `_in_batches`, with the time and sequence number of each: those of the first event of the next one."""
    since = f"pmod({TIME} - {form.reference}L, {form.period}L)"
    bits = _BITS - (form.period - 1).bit_length()
    firsts = _firsts(since, bits)
    named = [f"{value} AS {name}" for name, value in firsts.items()]
    events = events.select(f"{TIME} - {since} AS begin", *named, *read)
    lowest = [f"min({name}) AS {name}" for name in firsts]
    batches = events.grouped(["begin", *_keys(form)], [*made, *lowest])
    rows = _followed(batches, _keys(form), made, ["begin", *firsts])
    since, sequence = _place_of_next(bits)
    return rows.select(*_keys(form), *_names(made), f"next_begin + {since} AS {TIME}", f"{sequence} AS {SEQ}")


def _followed(batches: SqlQuery, keys: Sequence[str], made: Sequence[Sql], told: Sequence[str]) -> SqlQuery:
    """The batches that another one follows, of which some columns are `told`: those called next_…"""
    over = f"OVER (PARTITION BY {', '.join(keys)} ORDER BY begin)"
    after = [f"lead({name}) {over} AS next_{name}" for name in told]
    return batches.select(*keys, *_names(made), *after).where("next_begin IS NOT NULL")


def _keys(form: VectorizedWindow) -> list[str]:
    return [f"k{i}" for i in range(len(form.keys))]


def _names(made: Sequence[Sql]) -> list[str]:
    return [each.rpartition(" AS ")[2] for each in made]


def _firsts(since: Sql, bits: int) -> dict[str, Sql]:
    """What the lowest of is the first event of a batch, by name: the time `since` its beginning and the sequence number
    in one number, because Spark's quick way of grouping finds no lowest pair; those that do not fit are decimals.
    """
    fits = f"{SEQ} BETWEEN 0 AND {2**bits - 1}L"
    wide, half = (f"CAST({2**power}BD AS DECIMAL(20,0))" for power in (64, 63))
    pair = f"CAST({since} AS DECIMAL(17,0)) * {wide} + (CAST({SEQ} AS DECIMAL(20,0)) + {half})"
    return {
        "first": f"CASE WHEN {fits} THEN shiftleft({since}, {bits}) + {SEQ} END",
        "odd": f"CASE WHEN NOT ({fits}) THEN {pair} END",
    }


def _place_of_next(bits: int) -> tuple[Sql, Sql]:
    """Of the first event of the next batch (`_firsts`) the time since that began, and the sequence number."""
    plain = f"shiftright(next_first, {bits})", f"(next_first & {2**bits - 1}L)"
    apart = f"(next_odd div {2**64}BD)", f"CAST(next_odd % {2**64}BD - {2**63}BD AS BIGINT)"
    before = f"{apart[0]} < {plain[0]} OR ({apart[0]} = {plain[0]} AND {apart[1]} < {plain[1]})"
    is_odd = f"next_odd IS NOT NULL AND (next_first IS NULL OR {before})"
    since, sequence = (f"CASE WHEN {is_odd} THEN {a} ELSE {p} END" for a, p in zip(apart, plain, strict=True))
    return since, sequence


def _keyed(form: VectorizedWindow, place: Mapping[str, str], of: EventType) -> list[Sql]:
    """The keys; texts are the same where all their characters are, whatever the collation of a column."""
    texts = ("string", "char")
    return [f"CAST({place[key]} AS STRING)" if of.properties[key].name in texts else place[key] for key in form.keys]
