"""Notebook output: live views of statements, the control of a replay, charts. Works without a network.

`charts` is not imported here, because altair costs a second that few sessions need.
"""

from __future__ import annotations

from cepbook.widgets.cell_outputs import show_live
from cepbook.widgets.live_view.statement_view import StatementView, view
from cepbook.widgets.live_view.view_source import ViewSource, WorkbenchSource
from cepbook.widgets.replay_bar.replay_control import ReplayControl

__all__ = ["ReplayControl", "StatementView", "ViewSource", "WorkbenchSource", "show_live", "view"]
