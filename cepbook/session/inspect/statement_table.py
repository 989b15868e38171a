"""All deployed statements as a table."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.feeds import Feed
from cepbook.lang.plan import nodes
from cepbook.lang.plan.definitions import defined_name
from cepbook.lang.types import LONG, STRING
from cepbook.session.core.run_results import columns_text, statement_kind
from cepbook.session.io.output.result_frames import rows_frame


def statements_frame(runtime: Runtime, feed_of: Callable[[str], Feed]) -> pd.DataFrame:
    """Return all statements in order of deployment: name, kind, context, reads, columns, delivered, epl."""
    lines = []
    for deployment in runtime.deployments.values():
        for statement in deployment.plan.statements:
            name = statement.name if statement.named else defined_name(statement) or statement.name
            line: dict[str, object] = {"name": name, "epl": statement.epl, "delivered": 0}
            created, kind = statement.created_store, statement.statement_kind
            line |= {"kind": kind if created is None else statement_kind(runtime.statement(statement.name))}
            if statement.name in runtime.statements:
                feed = feed_of(statement.name)
                line |= {"columns": columns_text(runtime.statement(statement.name).output_type.properties)}
                line |= {"delivered": feed.total_insert + feed.total_remove}
            if isinstance(statement, nodes.StreamStatement | nodes.CreateTableStatement):
                line |= {"context": statement.context}
            elif isinstance(statement, nodes.CreateSchemaStatement):
                line |= {"columns": columns_text(statement.event_type.shown)}
            if created is None and (statement.sources or statement.names_read):
                inner = (subquery.source.event_type for subquery in statement.subqueries)
                line |= {"reads": ", ".join(dict.fromkeys((*statement.names_read, *inner)))}
            lines.append(line)
    texts = ("name", "kind", "context", "reads", "columns")
    properties = {**dict.fromkeys(texts, STRING), "delivered": LONG, "epl": STRING}
    return rows_frame(lines, properties)
