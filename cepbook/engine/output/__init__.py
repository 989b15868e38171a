"""Output rate limiting: what becomes of a statement's rows between their making and their delivery.

One `Limiter` per state (statement or context partition). `triggers` say when, `collect` and `first` say what.
"""

from cepbook.engine.output.limiter import DeliveredRows, Limiter, LimiterSpec

__all__ = ["DeliveredRows", "LimiterSpec", "Limiter"]
