"""Why no partition of a context accepts an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import context as c
from cepbook.lang.plan import nodes


def no_partition_reason(runtime: Runtime, context: str, type_name: str) -> str:
    """Return what starts partitions, the categories, or the filter that rejects events of this type."""
    source = next((d.source for d in runtime.deployments.values() if context in d.contexts), "")
    return "; ".join(_opens(runtime, runtime.context(context).plan.spec, type_name, source)) or "no partition takes it"


def _opens(runtime: Runtime, spec: object, type_name: str, source: str) -> Iterator[str]:
    def text(node: Any) -> str:
        return " ".join(source[node.span.start : node.span.end].split())

    match spec:
        case c.NestedSpec():
            for level, inner in spec.levels:
                yield from (f"{level}: {item}" for item in _opens(runtime, inner, type_name, source))
        case c.NonOverlappingSpec():
            yield f"no partition is open: one starts with `{text(spec.start)}`"
        case c.OverlappingSpec():
            yield f"no partition is open: one is initiated by `{text(spec.initiated)}`"
        case c.CategorySpec():
            named = ", ".join(f"{label}: `{text(condition)}`" for label, condition in spec.categories)
            yield f"it is of no category ({named})"
        case nodes.KeyedStreams() | c.KeyedSpec() | c.HashSpec():
            streams = spec.streams.streams if isinstance(spec, c.KeyedSpec) else spec.streams
            matching = (stream for stream in streams if runtime.catalog.is_a(type_name, stream.event_type))
            filters = ", ".join(f"`{text(stream.filter)}`" for stream in matching if stream.filter is not None)
            yield f"the context's filter {filters} rejects it" if filters else "no partition of its key is open"
