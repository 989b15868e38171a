"""Apama's stream queries.

Source: the Apama documentation, chapter "Working with Streams and Stream Queries", above all Defining Batched Windows.
Supported are queries with all windows, joins, aggregates, stream variables and event declarations. Not supported are
monitors, actions, listeners, custom aggregates, and window parameters that change.
"""

from __future__ import annotations

from cepbook.dialects.apama.bind import declared_names, translate
from cepbook.dialects.apama.expressions import APAMA_AGGREGATES
from cepbook.dialects.apama.hints import APAMA_KEYWORDS
from cepbook.dialects.apama.reader import parse
from cepbook.dialects.dialect import Dialect, show_tree

DIALECT = Dialect(
    "apama",
    "Apama's stream queries",
    translate,
    declared_names,
    magic="apama",
    summary="Compile and deploy an Apama stream query as the statement NAME, and each stream<…> as NAME.stream.",
    settings={"name": "the name of the statement"},
    keywords={**APAMA_KEYWORDS, **{name: rule.doc for name, rule in APAMA_AGGREGATES.items()}},
    tree=lambda text: show_tree(parse(text)),
)
