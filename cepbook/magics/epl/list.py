"""``%epl list`` and ``%epl map``: what is deployed, as a table and as a live map."""

from __future__ import annotations

import pandas as pd

from cepbook.magics.shell.host import NotebookHost, Subcommand, refuse_arguments
from cepbook.magics.shell.output import table
from cepbook.session.io.event_validation import is_missing
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.map.flow_map import FlowMap


def list_statements(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """List the statements, and below them the named windows and tables if there are any."""
    refuse_arguments("list", arguments)
    frame = host.workbench.statements().astype(object).drop(columns="epl")
    notes = ["%epl help says how to begin"] if frame.empty else []
    title = "no statements" if frame.empty else ""
    statements = table(title, list(frame.columns), _cells(frame), right=("delivered",), notes=notes)
    stores = host.workbench.stores().astype(object).drop(columns="columns").dropna(axis="columns", how="all")
    if stores.empty:
        return statements
    stores = stores.replace(to_replace=r"\n", value="; ", regex=True)
    below = table("named windows and tables", list(stores.columns), _cells(stores), right=("rows", "partitions"))
    return StaticPicture(statements.html + below.html, f"{statements.text}\n\n{below.text}")


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return [["" if is_missing(value) else str(value) for value in row] for row in frame.itertuples(index=False)]


def draw_map(host: NotebookHost, arguments: list[str]) -> FlowMap:
    """Draw which statement feeds which, live. A click on a statement, named window or table opens its view."""
    refuse_arguments("map", arguments)
    return FlowMap(host.workbench)


LIST = Subcommand("list", list_statements, {"%epl list": "What is deployed, and how often it has delivered."})
MAP = Subcommand("map", draw_map, {"%epl map": "What feeds what, as a live picture with rates."})
