"""What a notebook shows: live views of statements, the control of a replay, charts. Works without a network.

`charts` is not imported here, because altair costs a second that few sessions need.
"""

from __future__ import annotations

from cepbook.widgets.outputs import show_live
from cepbook.widgets.progress import ReplayControl
from cepbook.widgets.source import ViewSource, WorkbenchSource
from cepbook.widgets.view import StatementView, view

__all__ = ["ReplayControl", "StatementView", "ViewSource", "WorkbenchSource", "show_live", "view"]
