"""The functions that expressions can call, by name."""

from __future__ import annotations

from cepbook.lang.registry.functions.aggregate_methods import ACCESS
from cepbook.lang.registry.functions.builtins import GENERAL, JAVA_NAMES
from cepbook.lang.registry.functions.function_row import FunctionRow
from cepbook.lang.registry.functions.math import MATH, SPATIAL
from cepbook.lang.registry.functions.numbers import CONSTANTS, NUMBERS
from cepbook.lang.registry.functions.strings import TEXT

FUNCTIONS: dict[str, FunctionRow] = {row.name: row for row in (*GENERAL, *MATH, *NUMBERS, *TEXT, *ACCESS, *SPATIAL)}

__all__ = ["CONSTANTS", "FUNCTIONS", "JAVA_NAMES", "FunctionRow"]
