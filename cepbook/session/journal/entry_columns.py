"""Entries of a journal as bytes, and back: events that were sent one by one, and advances of the clock.

The entries of one name are a part of a frame: a head in its header, and a block with the columns one behind the other.
A column is a list ``[name, form, detail]`` in the head. The forms:

======  ==============================================================================================================
q       whole numbers of eight bytes
d       fractions of eight bytes
?       truth values of one byte
texts   UTF-8 with a NUL between two texts; `detail` is the length in bytes
graph   `detail` has the values, in the form of `value_graph`; there are no bytes. Other types have this form, and any
        column with a value that its own form cannot hold: a number beyond 64 bits, a NUL or half a surrogate in a text
======  ==============================================================================================================

With nulls there is a ``/`` behind the form: `detail` has their positions and the detail of the form, and the bytes are
those of the other values. Numbers are little-endian. If a group has several parts, the first column of each has no name
and is the positions of its entries in the group.

Arrow would need twice the time, because the values are objects of Python and a group is small.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from cepbook.errors import SnapshotError
from cepbook.lang.plan.catalog import EventType
from cepbook.session.journal.event_columns import as_graph, column_type, from_graph

Entry = tuple[str, Any]  # event type and event, or how the clock moves and to what time
EntryColumn = tuple[str, str, Callable[[Mapping[str, Any]], Any]]  # name, form, and how to read it from an event
CLOCK, STEPS = "", "+"  # names of entries that are advances; no event type has them
_FORMS = {"int64": "q", "double": "d", "bool": "?", "string": "texts", "graph": "graph"}
_BYTES = {"q": 8, "d": 8, "?": 1}


def entry_columns(event_type: EventType) -> list[EntryColumn]:
    """Return the columns that the events of a type become."""
    return [(name, _FORMS[column_type(of)], itemgetter(name)) for name, of in event_type.properties.items()]


def pack_entries(
    flat: Sequence[Any], columns: Mapping[str, Sequence[EntryColumn]]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the heads and blocks of entries, which are names and values in turn. `columns` are those of each type.

    Raises JournalError for a value that nothing can hold.
    """
    names, all_values = flat[::2], flat[1::2]
    alone = not names or names.count(names[0]) == len(names)
    heads, blocks = [], []
    for name in names[:1] if alone else dict.fromkeys(names):
        ranks = [] if alone else [rank for rank, other in enumerate(names) if other == name]
        values = all_values if alone else [all_values[rank] for rank in ranks]
        packed = [] if alone else [_packed("", "q", ranks)]
        if name in (CLOCK, STEPS):
            packed.append(_packed("", "q", values))
        else:
            packed += [_packed(column, form, list(map(read, values))) for column, form, read in columns[name]]
        heads.append({"type": name, "count": len(values), "columns": [described for described, _ in packed]})
        blocks.append(b"".join([data for _, data in packed]))
    return heads, blocks


def unpack_entries(heads: Sequence[Mapping[str, Any]], blocks: Sequence[memoryview]) -> list[Entry]:
    """Return the entries that `pack_entries` has packed. Raises SnapshotError if they are invalid."""
    try:
        ranked: list[tuple[int, Entry]] = []
        for head, block in zip(heads, blocks, strict=True):
            columns = _unpacked(head, block)
            ranks: Sequence[int] = columns.pop(0)[1] if len(heads) > 1 else range(head["count"])
            if head["type"] in (CLOCK, STEPS):
                values: Sequence[Any] = columns.pop(0)[1]
            else:
                values = [{} for _ in range(head["count"])]
                for name, column in columns:
                    for event, value in zip(values, column, strict=True):
                        event[name] = value
            ranked += ((rank, (head["type"], value)) for rank, value in zip(ranks, values, strict=True))
        ranked.sort(key=itemgetter(0))
        return [entry for _, entry in ranked]
    except (LookupError, TypeError, ValueError, StopIteration, struct.error) as error:
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


def _packed(name: str, form: str, values: Sequence[Any]) -> tuple[list[Any], bytes]:
    if form != "graph":
        with suppress(ValueError, TypeError, OverflowError, struct.error):
            return _written(name, form, None, values)
        present = [value for value in values if value is not None]
        with suppress(ValueError, TypeError, OverflowError, struct.error):
            nulls = [position for position, value in enumerate(values) if value is None]
            return _written(name, form, nulls, present)
    return [name, "graph", as_graph(list(values))], b""


def _written(name: str, form: str, nulls: list[int] | None, values: Sequence[Any]) -> tuple[list[Any], bytes]:
    """Return a column of values without null. Another value than the form can hold raises an error."""
    length = None
    if form == "texts":
        joined = "\0".join(values)
        if joined.count("\0") > max(0, len(values) - 1):
            raise ValueError("a NUL in a text")
        data = joined.encode()
        length = len(data)
    elif form == "?":
        data = bytes(values)  # unlike `struct`, which takes null for false
    else:
        data = struct.pack(f"<{len(values)}{form}", *values)
    return [name, form, length] if nulls is None else [name, form + "/", [nulls, length]], data


def _unpacked(head: Mapping[str, Any], block: memoryview) -> list[tuple[str, Sequence[Any]]]:
    columns: list[tuple[str, Sequence[Any]]] = []
    start = 0
    for name, form, detail in head["columns"]:
        if form == "graph":
            columns.append((name, from_graph(detail)))
            continue
        nulls, length = detail if form.endswith("/") else ((), detail)
        form, count = form.removesuffix("/"), head["count"] - len(nulls)
        end = start + (length if form == "texts" else count * _BYTES[form])
        data, start = block[start:end], end
        values: Sequence[Any]
        if form == "texts":
            values = bytes(data).decode().split("\0") if count else []
        else:
            values = struct.unpack(f"<{count}{form}", data)
        if nulls:
            absent, present = set(nulls), iter(values)
            values = [None if position in absent else next(present) for position in range(head["count"])]
        columns.append((name, values))
    return columns
