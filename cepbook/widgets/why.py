"""Answers to questions why as a notebook shows them."""

from __future__ import annotations

from cepbook.session.why.answers import Facts, Fired, Judged, Titled, facts_table
from cepbook.shown import heading_html, prose, table_html
from cepbook.widgets.render import Frozen


def shown(found: Fired | Judged) -> Frozen:
    """An answer of `Workbench.why`."""
    page = found.page()
    return Frozen(f"<div>{heading_html(page.title, page.note)}{''.join(map(_html, page.parts))}</div>", page.text())


def _html(part: Facts | Titled | str) -> str:
    match part:
        case str():
            return f'<div style="opacity:.75">{prose(part)}</div>'
        case Titled(title, table):
            return heading_html(title) + table_html(table)
        case Facts():
            return table_html(facts_table(part))
