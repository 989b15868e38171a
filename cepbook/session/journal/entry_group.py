"""Groups of entries: events that were sent one by one, and advances of the clock, as a batch of columns for each name.

If a group has several batches, the first column of each is the positions of its entries in the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from cepbook.errors import SnapshotError
from cepbook.lang.plan.catalog import EventType
from cepbook.session.journal.event_columns import RANKS, TIMES, WHOLE, BatchWriter, column_type, read_batch

Entry = tuple[str, Any]  # event type and event, or how the clock moves and to what time
EntryColumn = tuple[str, str, Callable[[Mapping[str, Any]], Any]]  # name, type, and how to read it from an event
CLOCK, STEPS = "", "+"  # names of entries that are advances; no event type has them


def entry_columns(event_type: EventType) -> list[EntryColumn]:
    """Return the columns that the events of a type become."""
    return [(name, column_type(of), itemgetter(name)) for name, of in event_type.properties.items()]


def pack_entries(flat: Sequence[Any], columns: Mapping[str, Sequence[EntryColumn]]) -> list[BatchWriter]:
    """Return the batches of entries, which are names and values in turn. `columns` are those of each event type.

    Raises JournalError for a value that nothing can hold.
    """
    names, all_values = flat[::2], flat[1::2]
    alone = not names or names.count(names[0]) == len(names)
    batches = []
    for name in names[:1] if alone else dict.fromkeys(names):
        ranks = [] if alone else [rank for rank, other in enumerate(names) if other == name]
        values = all_values if alone else [all_values[rank] for rank in ranks]
        batch = BatchWriter(name, len(values))
        if not alone:
            batch.add(RANKS, WHOLE, ranks)
        if name in (CLOCK, STEPS):
            batch.add(TIMES, WHOLE, values)
        else:
            for column, type, read in columns[name]:
                batch.add(column, type, list(map(read, values)))
        batches.append(batch)
    return batches


def unpack_entries(heads: Sequence[Mapping[str, Any]], blocks: Iterator[memoryview]) -> list[Entry]:
    """Return the entries of the batches with these headers. Raises SnapshotError if they are invalid."""
    try:
        ranked: list[tuple[int, Entry]] = []
        for head in heads:
            columns = read_batch(head, blocks, {})
            ranks: Sequence[int] = columns.pop(RANKS) if len(heads) > 1 else range(head["count"])
            if head["type"] in (CLOCK, STEPS):
                values: Sequence[Any] = columns[TIMES]
            else:
                values = [{} for _ in range(head["count"])]
                for name, column in columns.items():
                    for event, value in zip(values, column, strict=True):
                        event[name] = value
            ranked += ((rank, (head["type"], value)) for rank, value in zip(ranks, values, strict=True))
        ranked.sort(key=itemgetter(0))
        return [entry for _, entry in ranked]
    except (LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error
