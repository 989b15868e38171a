"""``%epl partials``: the partial matches of a pattern or match_recognize."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.display import format_count
from cepbook.editor.offers import Offer
from cepbook.magics.epl.partitions import cell_text
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions, single_name, whole_number
from cepbook.magics.shell.output import table
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.partition_rows import match_lines, partial_rows

OPTIONS = (
    MagicOptions("%epl partials")
    .add("names", nargs="*", help="the statement")
    .add("--partition", type=whole_number, help="the id of one context partition; default: all")
)


def list_partials(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """List what the statement waits for, since when, and with which events so far."""
    options = OPTIONS.parse_words(arguments)
    runtime = host.workbench.runtime
    with_pattern = [name for name in runtime.statements if pattern_tags(runtime, name) is not None]
    name = single_name("%epl partials", options.names, "statement with a pattern", with_pattern)
    partials = partial_matches(runtime, name, options.partition)
    times = TimeColumns(runtime, ms=True).of_events(name)
    columns, rows, _ = partial_rows(partials, times)
    # unlike the live view, a static table has room for the whole events
    events = [" ".join(match_lines(partial.events, times)) for partial in partials.rows]
    cells = [
        [cell_text(row.get(c.name), c) if c.name != "events so far" else line for c in columns]
        for row, line in zip(rows, events, strict=True)
    ]
    title = f"{name}: {format_count(partials.total, 'partial match', 'partial matches')}"
    notes = [f"the first {len(rows)} are shown"] if partials.total > len(rows) else []
    right = [column.name for column in columns if column.kind == "int"]
    return table(title, [column.name for column in columns], cells, right=right, notes=notes)


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        statements = host.workbench.runtime.statements.values()
        yield from ((s.name, "statement") for s in statements if s.steps.source.pattern is not None)


PARTIALS = Subcommand(
    "partials",
    list_partials,
    {"%epl partials NAME [--partition ID]": "What a pattern or match_recognize waits for."},
    _complete,
)
