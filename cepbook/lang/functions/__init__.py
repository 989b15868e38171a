"""Every function and method that expressions can call, by name."""

from __future__ import annotations

from cepbook.lang.functions.access import ACCESS
from cepbook.lang.functions.general import GENERAL, JAVA_NAMES
from cepbook.lang.functions.math import MATH
from cepbook.lang.functions.row import FunctionRow
from cepbook.lang.functions.text import TEXT

FUNCTIONS: dict[str, FunctionRow] = {row.name: row for row in (*GENERAL, *MATH, *TEXT, *ACCESS)}

__all__ = ["FUNCTIONS", "JAVA_NAMES", "FunctionRow"]
