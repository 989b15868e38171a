"""``lot``: the events that arrive together, for as long as it takes to work out what they change.

::

    arrivals   a b   c   d e f
    contents   ab    c   def

Nothing leaves: the next events find an empty window, and aggregates begin anew with them. (Apama's stream without a
window; the events of one event with contained-event selection.)
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import WindowCodegen
from cepbook.engine.windows.window_view import PassThroughView

WINDOW = WindowCodegen(lambda code, spec, at: f"{code.source.bind('_Unbound', PassThroughView)}()")
