"""Sources of live events for `Workbench.live`, and what a source of your own may yield."""

from __future__ import annotations

from cepbook.session.io.live.database_rows import database
from cepbook.session.io.live.file_tail import tail
from cepbook.session.io.live.live_sources import Link, Located, Malformed, Source
from cepbook.session.io.live.network_sources import kafka, lines, websocket

__all__ = ["Link", "Located", "Malformed", "Source", "database", "kafka", "lines", "tail", "websocket"]
