"""Context partitions and partial matches as DataFrames."""

from __future__ import annotations

import warnings
from collections.abc import Container
from typing import Any

import pandas as pd

from cepbook.argument_checks import caller_stacklevel
from cepbook.display import unused_name
from cepbook.engine.runtime import Runtime
from cepbook.errors import MissingRowsWarning
from cepbook.lang.types import LONG, OBJECT, STRING
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import SIZES, TIMES, flat_types, partition_properties, partition_sizes
from cepbook.session.io.output.result_frames import typed_series
from cepbook.session.io.output.time_types import DATES, output_types, time_type


def partitions_frame(
    runtime: Runtime, context: str, ids: Container[int] | None = None, times: str = DATES
) -> pd.DataFrame:
    """Return the live partitions (in `ids`) by id: properties, the ``statements``, and the sizes of their states.

    `times` is the form of their start and end (`time_type`).
    """
    time = time_type(runtime.config, times)
    running = runtime.context(context)
    partitions = [partition for partition in running.identities() if ids is None or partition.id in ids]
    types = flat_types(runtime.catalog.contexts[context])
    types = output_types(types, [name for name in types if name.rpartition(".")[2] in TIMES], time)
    rows = [partition_properties(partition) for partition in partitions]
    sizes = partition_sizes(runtime, context, ids)
    users = [statement.name for statement in running.statements if statement is not None]
    data: dict[str, pd.Series[Any]] = {"id": typed_series([partition.id for partition in partitions], LONG)}
    for name in dict.fromkeys((*types, *(name for row in rows for name in row))):
        data[name] = typed_series([row.get(name) for row in rows], types.get(name, OBJECT))
    data[unused_name("statements", data)] = pd.Series([users] * len(partitions), dtype="object")
    for size in SIZES:
        data[unused_name(size, data)] = typed_series([sizes.get(p.id, {}).get(size) for p in partitions], LONG)
    return pd.DataFrame(data)


def partials_frame(runtime: Runtime, statement: str, partition: int | None = None, times: str = DATES) -> pd.DataFrame:
    """Return one row per partial match: partition (with a context), waiting_for, since, until, a column per tag.

    `times` is the form of the times (`time_type`). Issues a MissingRowsWarning if not all are listed (`MAX_PARTIALS`).
    Raises as `partial_matches` does.
    """
    matches = partial_matches(runtime, statement, partition)
    if matches.total > len(matches.rows):
        fact = f"the first {len(matches.rows):,} of {matches.total:,} partial matches of `{statement}` are listed"
        divided = partition is None and runtime.statement(statement).steps.context is not None
        hint = "\n  hint: `partition=ID` lists those of one context partition" if divided else ""
        warnings.warn(f"{fact}{hint}", MissingRowsWarning, stacklevel=caller_stacklevel())
    tags = pattern_tags(runtime, statement) or ()
    time = time_type(runtime.config, times)
    data: dict[str, pd.Series[Any]] = {}
    if runtime.statement(statement).steps.context is not None:
        data["partition"] = typed_series([p.partition for p in matches.rows], LONG)
    data["waiting_for"] = typed_series([p.waiting_for for p in matches.rows], STRING)
    data["since"] = typed_series([p.since for p in matches.rows], time)
    data["until"] = typed_series([p.until for p in matches.rows], time)
    for tag in tags:
        data[unused_name(tag, data)] = typed_series([p.events.get(tag) for p in matches.rows], OBJECT)
    return pd.DataFrame(data)
