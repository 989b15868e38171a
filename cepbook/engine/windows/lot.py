"""``lot``: the events that arrive together, for as long as their delta is computed.

::

    arrivals   a b   c   d e f
    contents   ab    c   def

No event leaves: the next events find an empty window, and aggregates start again with them. (Apama's stream without a
window; the events of one event with contained-event selection.)
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import WindowCodegen, creates
from cepbook.engine.windows.window_view import PassThroughView

WINDOW = WindowCodegen(creates(PassThroughView))
