"""Event types from Python and pandas: what `Workbench.define` understands.

| pandas dtype | EPL type |
|---|---|
| bool, boolean | boolean |
| int8, int16, int32, int64 (and Int8 …) | byte, short, int, long |
| uint8, uint16, uint32, uint64 | short, int, long, biginteger (the next wider signed type) |
| float16, float32 / float64 | float / double |
| str, string | string |
| datetime64 of any unit and zone, object of dates | long: milliseconds since 1970 UTC |
| timedelta64 | long: milliseconds |
| object of times of day | localtime |
| category | the type of the categories |
| object | by its values: string, boolean, long, double, bigdecimal, arrays of these |
| object of dicts, of lists of dicts | a nested event, an array of them; the type has all names that occur |

The type of a nested event is called like the event type and the column, as ``Sale_items``. Dicts whose names are no
texts, and empty ones, are maps.

Python annotations: ``int`` long, ``float`` double, ``bool`` boolean, ``str`` string, ``Decimal`` bigdecimal,
``datetime``/``date``/``timedelta`` long, ``time`` localtime, ``list[X]`` X[], ``dict`` map, ``Any`` object, a dataclass
or TypedDict a nested event; ``X | None`` is X, because every EPL type has null.
"""

from __future__ import annotations

import os
import types as pytypes
import typing
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pandas as pd

from cepbook.argument_checks import short_repr
from cepbook.engine.expressions.plain_values import TOO_DEEP, NestedTooDeep, plain_value
from cepbook.errors import EventError, UsageError, hint_line
from cepbook.lang import types as t
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io.column_readers import event_times
from cepbook.session.io.event_validation import EventTypes
from cepbook.session.io.files import PARQUET, frame_of_objects, is_file, parquet_head, read_file
from cepbook.session.io.foreign_frames import is_arrow, is_spark, schema_properties, with_named_index
from cepbook.session.io.text_files import DEFAULT, TextFormat

_PYTHON: dict[object, t.Type] = {
    bool: t.BOOLEAN,
    int: t.LONG,
    float: t.DOUBLE,
    str: t.STRING,
    Decimal: t.BIGDECIMAL,
    datetime: t.LONG_DATE,
    date: t.LONG_DATE,
    time_of_day: t.LOCALTIME,
    timedelta: t.LONG,
    dict: t.MAP,
    object: t.OBJECT,
    Any: t.OBJECT,
    list: t.array_of(t.OBJECT),
    pd.Timestamp: t.LONG_DATE,
    pd.Timedelta: t.LONG,
}
_SAMPLE = 1_000  # values of a time column that are judged when it is defined
_BY_BITS = {8: t.BYTE, 16: t.SHORT, 32: t.INT, 64: t.LONG, 128: t.BIGINTEGER}
_INFERRED = {
    "string": t.STRING,
    "boolean": t.BOOLEAN,
    "floating": t.DOUBLE,
    "mixed-integer-float": t.DOUBLE,
    "decimal": t.BIGDECIMAL,
    "datetime": t.LONG_DATE,
    "datetime64": t.LONG_DATE,
    "date": t.LONG_DATE,
    "time": t.LOCALTIME,
    "timedelta": t.LONG,
    "timedelta64": t.LONG,
    "empty": t.OBJECT,
}


def infer_event_types(
    name: str,
    source: object,
    known: EventTypes,
    *,
    time: str | None = None,
    inherits: Sequence[str] = (),
    clock: tuple[int, str, int] = (1000, "UTC", 0),
    form: TextFormat = DEFAULT,
) -> list[EventType]:
    """Return the event type `name` described by `source`, preceded by the nested types that it needs and `known` lacks.

    A text property that is the `time` is a long: its values are dates. An index of dates is the time of a DataFrame
    that has no other. `clock`: its units per second, zone and time; `form` is the format of files of text. Raises
    UsageError with the column at fault.
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"an event type needs a name, not {name!r}")
    nested: dict[str, EventType] = {}
    source = _described(source, form)
    if isinstance(source, pd.DataFrame):
        time = index_time(source) if time is None and index_time(source) not in source.columns else time
        source = with_time_index(source, time)
    elif time is None and is_arrow(source):
        source, time = with_named_index(source)
    try:
        own = _properties(name, source, known, nested)
    except RecursionError:
        raise UsageError(f"the values for `{name}` are nested too deeply") from None
    inherited: dict[str, t.Type] = {}
    supertypes: list[str] = []
    for parent in inherits:
        if parent not in known:
            raise UsageError(f"there is no event type `{parent}` to inherit from{hint_line(parent, known)}")
        for column, of in known[parent].properties.items():
            other = own.get(column, inherited.get(column, of))
            if other != of:
                raise UsageError(
                    f"property `{column}` of `{name}` is {other}, and {of} in `{parent}`, which it inherits"
                )
            inherited[column] = of
        supertypes += [s for s in (parent, *known[parent].supertypes) if s not in supertypes]
    properties = {**inherited, **own}
    if time is not None:
        _check_time(name, time, properties, source, clock)
        if properties[time] == t.STRING:  # a time in EPL, too
            properties[time] = t.LONG_DATE
    own_type = EventType(name, properties, tuple(supertypes), time)
    return [replace(of, times=_dated(of.properties)) for of in (*nested.values(), own_type)]


def _dated(properties: Mapping[str, t.Type]) -> frozenset[str]:
    return frozenset(name for name, of in properties.items() if of.dated)


def _check_time(
    name: str, time: str, properties: Mapping[str, t.Type], source: object, clock: tuple[int, str, int]
) -> None:
    if time not in properties:
        raise UsageError(f"event type `{name}` has no property `{time}` for its time{hint_line(time, properties)}")
    if isinstance(source, pd.DataFrame) and properties[time] in (t.LONG, t.INT, t.DOUBLE, t.STRING):
        try:
            event_times(f"time column `{time}` of `{name}`", source[time].dropna().iloc[:_SAMPLE], *clock)
        except EventError as error:
            raise UsageError(str(error)) from None
    if properties[time] not in (t.LONG, t.INT, t.TIMESTAMP, t.STRING):
        raise UsageError(f"property `{time}` of `{name}` is {properties[time]}; a time is a date or long milliseconds")


def _described(source: object, form: TextFormat) -> object:
    """Return a file and a list of dicts as a table, anything else unchanged."""
    if is_file(source):
        path = os.fspath(cast("str | os.PathLike[str]", source))
        return parquet_head(path) if path.lower().endswith(PARQUET) else read_file(path, form=form)
    if isinstance(source, list | tuple) and source and all(isinstance(event, Mapping) for event in source):
        return frame_of_objects(source, dict.fromkeys(name for event in source for name in event))
    return source


def _properties(name: str, source: object, known: EventTypes, nested: dict[str, EventType]) -> dict[str, t.Type]:
    if is_arrow(source) or is_spark(source):
        return schema_properties(name, source, nested)
    if isinstance(source, pd.DataFrame):
        return frame_properties(source, name, nested)
    if isinstance(source, Mapping):
        return {_text(k): _of_annotation(f"{name}.{k}", v, known, nested) for k, v in source.items()}
    if isinstance(source, type) and (is_dataclass(source) or typing.is_typeddict(source)):
        try:
            hints = typing.get_type_hints(source)
        except NameError as error:
            raise UsageError(f"an annotation of `{source.__name__}` cannot be resolved: {error}") from None
        names = [f.name for f in fields(source)] if is_dataclass(source) else list(hints)
        return {n: _of_annotation(f"{source.__name__}.{n}", hints[n], known, nested) for n in names}
    raise UsageError(
        f"event type `{name}` cannot be made from {type(source).__name__}: "
        "expected a DataFrame (pandas, Spark), an Arrow table, the path of a Parquet, CSV or JSON-lines file, a list "
        "of dicts, a dataclass, a TypedDict or a dict of name -> type"
    )


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise UsageError(f"the column {name!r} is not named by a text")
    return name


def _of_annotation(where: str, annotation: Any, known: EventTypes, nested: dict[str, EventType]) -> t.Type:
    if isinstance(annotation, t.Type):
        return annotation
    if isinstance(annotation, str):
        return _of_text(where, annotation, known)
    if isinstance(annotation, Hashable) and annotation in _PYTHON:
        return _PYTHON[annotation]
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return dtype_type(where, pd.Series(dtype=np.dtype(annotation)))
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, pytypes.UnionType):
        real = [a for a in args if a is not type(None)]
        if len(real) == 1:
            return _of_annotation(where, real[0], known, nested)
    if origin in (list, tuple, Sequence) and args:
        return t.array_of(_of_annotation(where, args[0], known, nested))
    if origin in (dict, Mapping):
        return t.MAP
    if isinstance(annotation, type) and (is_dataclass(annotation) or typing.is_typeddict(annotation)):
        if annotation.__name__ not in known and annotation.__name__ not in nested:
            nested[annotation.__name__] = EventType(annotation.__name__, {})  # which may name itself
            inner = EventType(annotation.__name__, _properties(annotation.__name__, annotation, known, nested))
            nested[annotation.__name__] = inner
        return t.event_of(annotation.__name__)
    raise UsageError(f"`{where}`: {getattr(annotation, '__name__', None) or short_repr(annotation)} has no EPL type")


def annotation_type(where: str, annotation: Any, known: EventTypes) -> tuple[t.Type, bool]:
    """Return the EPL type of an annotation, and True if it allows None. Raises UsageError with `where`."""
    args = typing.get_args(annotation)
    union = typing.get_origin(annotation) in (typing.Union, pytypes.UnionType)
    loose = any(annotation is loose_annotation for loose_annotation in (Any, object, None, type(None))) or (
        union and type(None) in args
    )
    return _of_annotation(where, annotation, known, {}), loose


def _of_text(where: str, text: str, known: EventTypes) -> t.Type:
    if text.endswith("[]"):
        return t.array_of(_of_text(where, text[:-2].strip(), known))
    type_ = t.BY_NAME.get(text.lower())
    if type_ is not None:
        return type_
    if text in known:
        return t.event_of(text)
    raise UsageError(f"`{where}`: there is no type `{text}`{hint_line(text, [*t.BY_NAME, *known])}")


def frame_properties(
    frame: pd.DataFrame, name: str = "", nested: dict[str, EventType] | None = None
) -> dict[str, t.Type]:
    """Return column name -> EPL type in column order; types of nested events, called after `name`, go into `nested`.

    Raises UsageError for a duplicate or unsupported column.
    """
    check_column_names(frame)
    if not len(frame.columns):
        raise UsageError("the DataFrame has no columns")
    inner: dict[str, EventType] = {} if nested is None else nested
    return {column: dtype_type(column, frame[column], name, inner) for column in map(str, frame.columns)}


def with_time_index(frame: pd.DataFrame, time: str | None) -> pd.DataFrame:
    """Return a frame with its index as the column `time`, if the index has dates and there is no such column.

    The column is called like the index if `time` is None, ``time`` if that has no name.
    """
    name = index_time(frame) if time is None else time
    unnamed = frame.index.name is None and isinstance(frame.index, pd.DatetimeIndex)
    if name is None or name in frame.columns or not (unnamed or frame.index.name == name):
        return frame
    return frame.reset_index(names=name)


def index_time(frame: object) -> str | None:
    """Return the name of a DatetimeIndex as a column, ``time`` if it has none; None without such an index.

    An Arrow table that pandas made remembers its index.
    """
    if is_arrow(frame):
        return with_named_index(frame)[1]
    if not isinstance(frame, pd.DataFrame) or not isinstance(frame.index, pd.DatetimeIndex):
        return None
    return "time" if frame.index.name is None else str(frame.index.name)


def datetime_columns(frame: object) -> list[str]:
    """Return the columns of a DataFrame that hold dates and times; nothing for other objects."""
    if not isinstance(frame, pd.DataFrame):
        return []
    return [str(name) for name, of in frame.dtypes.items() if pd.api.types.is_datetime64_any_dtype(of)]


def check_column_names(frame: pd.DataFrame) -> None:
    """Raise UsageError unless the columns have distinct names that are texts."""
    if frame.columns.nlevels > 1:
        raise UsageError("the DataFrame has columns of several levels; flatten them first")
    for name in frame.columns:
        _text(name)
    if not frame.columns.is_unique:
        raise UsageError(f"the DataFrame has the column `{frame.columns[frame.columns.duplicated()][0]}` twice")


def dtype_type(
    column: str, values: pd.Series[Any], name: str = "", nested: dict[str, EventType] | None = None
) -> t.Type:
    """Return the EPL type of a column of `name`; types of nested events go into `nested`. Raises UsageError with the
    column.
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return dtype_type(column, pd.Series(dtype.categories))
    if pd.api.types.is_bool_dtype(dtype):
        return t.BOOLEAN
    if pd.api.types.is_integer_dtype(dtype):
        bits = _bits(dtype)
        return _BY_BITS[bits if pd.api.types.is_signed_integer_dtype(dtype) else bits * 2]
    if pd.api.types.is_float_dtype(dtype):
        return t.FLOAT if _bits(dtype) <= 32 else t.DOUBLE
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return t.LONG_DATE
    if pd.api.types.is_timedelta64_dtype(dtype):
        return t.LONG
    if isinstance(dtype, pd.StringDtype):
        return t.STRING
    return _of_objects(column, values, name, {} if nested is None else nested)


def _bits(dtype: object) -> int:
    return int(getattr(dtype, "itemsize", 8)) * 8


def _of_objects(column: str, values: pd.Series[Any], name: str, nested: dict[str, EventType]) -> t.Type:
    try:
        dtype, values = values.dtype, pd.Series([plain_value(value) for value in values], dtype=object)
    except NestedTooDeep:
        raise UsageError(f"column `{column}`: a value {TOO_DEEP}") from None
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in _INFERRED:
        return _INFERRED[kind]
    present = values.dropna()
    if kind == "integer":
        return t.LONG if all(-(2**63) <= v < 2**63 for v in present) else t.BIGINTEGER
    if len(present) and all(isinstance(v, Mapping) for v in present):
        members = dict.fromkeys(member for v in present for member in v)
        if not members or not all(isinstance(member, str) and member for member in members):
            return t.MAP
        own = f"{name}_{column}"
        frame = frame_of_objects(list(present), members)
        nested[own] = EventType(own, frame_properties(frame, own, nested))
        return t.event_of(own)
    if len(present) and all(isinstance(v, list | tuple | np.ndarray) for v in present):
        flat = pd.Series([one for v in present for one in v], dtype=object)
        return t.array_of(dtype_type(column, flat.infer_objects(), name, nested))
    kinds = ", ".join(sorted({type(v).__name__ for v in present})) or str(dtype)
    raise UsageError(
        f"column `{column}` has no EPL type: dtype {dtype} with values of {kinds}\n  hint: convert or drop the column"
    )
