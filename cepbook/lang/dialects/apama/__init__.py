"""Apama's stream queries: text to plan.

Sources: the Apama documentation, chapter "Working with Streams and Stream Queries", above all Defining Batched Windows.
What is in: queries with all windows, joins, aggregates, stream variables, event declarations. What is not: monitors,
actions, listeners, custom aggregates, window parameters that change.
"""

from __future__ import annotations

from cepbook.lang.dialects.apama.errors import KEYWORDS
from cepbook.lang.dialects.apama.expressions import AGGREGATES
from cepbook.lang.dialects.apama.queries import declares, translate
from cepbook.lang.dialects.apama.reader import parse
from cepbook.lang.dialects.dialect import Dialect, show_tree

DIALECT = Dialect(
    "apama",
    "Apama's stream queries",
    translate,
    declares,
    magic="apama",
    summary="Compile and deploy an Apama stream query as the statement NAME, and each stream<…> as NAME.stream.",
    settings={"name": "the name of the statement"},
    keywords={**KEYWORDS, **{name: rule.doc for name, rule in AGGREGATES.items()}},
    tree=lambda text: show_tree(parse(text)),
)
