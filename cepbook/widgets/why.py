"""Answers to questions why as a notebook shows them."""

from __future__ import annotations

from cepbook.display import heading_html, prose_html, table_html
from cepbook.session.explain.explanations import EventExplanation, PageFacts, RowExplanation, TitledTable, facts_table
from cepbook.widgets.base.static_picture import StaticPicture


def answer_picture(found: RowExplanation | EventExplanation) -> StaticPicture:
    """An answer of `Workbench.why`."""
    page = found.page()
    return StaticPicture(
        f"<div>{heading_html(page.title, page.note)}{''.join(map(_html, page.parts))}</div>", page.text()
    )


def _html(part: PageFacts | TitledTable | str) -> str:
    match part:
        case str():
            return f'<div style="opacity:.75">{prose_html(part)}</div>'
        case TitledTable(title, table):
            return heading_html(title) + table_html(table)
        case PageFacts():
            return table_html(facts_table(part))
