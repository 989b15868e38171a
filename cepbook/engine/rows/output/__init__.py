"""Output rate limiting: what becomes of a statement's rows between their making and their delivery.

One `Limiter` per state (statement or context partition). `triggers` say when, `collect` and `first` say what.
"""

from cepbook.engine.rows.output.limiter import Delivery, Form, Limiter

__all__ = ["Delivery", "Form", "Limiter"]
