"""Metrics of statements as a table: events read, rows delivered, size of the state, processor time, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.feeds import Feed
from cepbook.lang.types import DOUBLE, LONG, STRING
from cepbook.session.core.cpu_sampler import CpuSampler, events_read
from cepbook.session.io.output.result_frames import rows_frame


def state_size(runtime: Runtime, name: str) -> int:
    """Return how many events, groups and partial matches the states of a statement hold."""
    return sum(
        summary["retained"] + (summary["groups"] or 0) + (summary["partials"]["total"] if "partials" in summary else 0)
        for summary in runtime.state(name, partials=0)
    )


def metrics_frame(
    runtime: Runtime,
    feed_of: Callable[[str], Feed],
    counts: Mapping[str, int],
    sampler: CpuSampler,
    errors: Mapping[str, int],
) -> pd.DataFrame:
    """Return one row per statement: name, events (read), rows (delivered), state (size), cpu, latency, errors.

    cpu is in seconds, latency in microseconds per event; both are null if not measured.
    """
    lines = []
    for name, statement in runtime.statements.items():
        feed = feed_of(name)
        lines.append(
            {
                "name": name,
                "events": events_read(runtime, statement, counts),
                "rows": feed.total_insert + feed.total_remove,
                "state": state_size(runtime, name),
                "cpu": sampler.seconds(name),
                "latency": sampler.latency(runtime, name),
                "errors": errors.get(name, 0),
            }
        )
    return rows_frame(
        lines,
        {"name": STRING, "events": LONG, "rows": LONG, "state": LONG, "cpu": DOUBLE, "latency": DOUBLE, "errors": LONG},
    )
