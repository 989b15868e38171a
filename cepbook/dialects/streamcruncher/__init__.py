"""StreamCruncher's running queries: selects over partitions of streams that are evaluated in cycles.

Source: StreamCruncher - Basics. What is not in that document is not in the grammar.
"""

from __future__ import annotations

from cepbook.dialects.dialect import Dialect
from cepbook.dialects.streamcruncher.bind import declared_names, translate
from cepbook.dialects.streamcruncher.reader import DIALECT_NAME, parse
from cepbook.lang.explain.syntax_tree import show_ast
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES, CYCLE_WINDOWS

DIALECT = Dialect(
    DIALECT_NAME,
    "StreamCruncher's running queries",
    translate,
    declared_names,
    magic="cruncher",
    summary="Run a query of StreamCruncher: a select over partitions of streams.",
    settings={
        "name": "the name of the statement",
        "weights": 'what an event of a stream weighs, such as {"s": 0.25}; events weigh 1, and 1 makes the query run',
        "schedule": '{"policy": "sooner"} (as soon as there is a cause), or {"policy": "fixed", "every_ms": 1000}',
        "timestamp": 'the column with the time of the events of a stream, such as {"s": "at"}; else their arrival',
        "sliding": '"one" (sliding windows take one row in a cycle), or "fill" (at first those that there is room for)',
        "seed": "what the coins of random windows depend on, a whole number",
        "tables": 'reference tables, such as {"prio": {"columns": ["code"], "rows": [["a"]]}}, named windows then',
    },
    tabular=frozenset(("tables",)),
    keywords={row.text.split()[1]: row.doc for row in CYCLE_WINDOWS.values()}
    | {row.name: row.doc for row in CYCLE_AGGREGATES.values()},
    tree=lambda text: show_ast(parse(text)),
)
