"""Sources of live events for `Workbench.live`: the public names of `cepbook.session.io.live_sources`."""

from __future__ import annotations

from cepbook.session.io.live_sources import Malformed, database, kafka, lines, tail, websocket

__all__ = ["Malformed", "database", "kafka", "lines", "tail", "websocket"]
