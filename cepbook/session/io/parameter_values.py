"""Python values for the parameters of a module: what `Workbench.run` takes as ``parameters``.

=========================================  ==================================================
bool, int, float, str, None, Decimal       as the literal: an int is EPL's int if it fits, else long
numbers of numpy                           the same, by their values
datetime, date, pandas.Timestamp           long, the clock's unit since 1970; naive ones are of the zone
timedelta, pandas.Timedelta                long, the clock's unit
list, tuple, range, numpy array, Series    arrays of these
=========================================  ==================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from cepbook.display import format_count
from cepbook.engine.config import Config
from cepbook.engine.expressions.plain_values import TOO_DEEP, NestedTooDeep, plain_value
from cepbook.errors import BindError, Diagnostic, UsageError
from cepbook.lang.bind.substitution import missing_value, parameter_uses
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader import parser
from cepbook.lang.syntax.source_text import EPL, SourceText
from cepbook.session.io.event_validation import is_missing
from cepbook.session.io.python_values import plain_settings
from cepbook.session.io.time_conversion import timedelta_units, to_clock_units

ParameterValues = Mapping[str, Any] | Sequence[Any]


def with_dialect_settings(text: str, dialect: str, settings: Mapping[str, Any], config: Config) -> str:
    """Return the text in its dialect with its settings. For EPL's ``parameters`` see `with_parameters`."""
    if dialect == EPL and set(settings) == {"parameters"}:
        return with_parameters(text, settings["parameters"], config)
    return SourceText(text, dialect, plain_settings(settings))


def with_parameters(
    text: str, given: ParameterValues | None, config: Config, parsed: Callable[[str], ast.Module] = parser.parse_epl
) -> str:
    """Return the text of a module with the values of its parameters. Values without a parameter are dropped.

    Dates become units of the clock of `config`, those without a zone are of its time zone. Raises ParseError, and
    BindError at parameters that have no value or one of a type that EPL does not have.
    """
    if "?" not in text and ":" not in text:
        return text
    if isinstance(given, (str, bytes)) or not isinstance(given, Mapping | Sequence | None):
        raise UsageError(f"parameters are a dict of name -> value or a list, not {type(given).__name__}")
    occurrences = parameter_uses(parsed(text))
    if not occurrences:
        return text
    values: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    if not isinstance(given, Mapping):
        values = {str(number): value for number, value in enumerate(given or (), 1)}
    unnamed = sum(not isinstance(node.name, str) for node, _ in occurrences)
    if not isinstance(given, Mapping) and unnamed and len(given or ()) > unnamed:
        last = next(node for node, key in reversed(occurrences) if key == str(unnamed))
        fact = f"there are {len(given or ())} values for {format_count(unnamed, 'parameter')}"
        raise BindError((Diagnostic("unknown-parameter", fact, last.span, "write one ? for each value"),), text)
    problems: list[Diagnostic] = []
    plain: dict[str, Any] = {}
    for node, key in occurrences:
        if key not in values:
            problems.append(missing_value(node, key, [name for name in values if isinstance(name, str)]))
            continue
        try:
            plain[key] = _plain(values[key], config)
        except NestedTooDeep:
            problems.append(Diagnostic("type-mismatch", f"`:{key}` {TOO_DEEP}", node.span))
        except TypeError as error:
            fact = f"`:{key}` is {error}, which EPL has no type for"
            hint = "values are bool, int, float, str, None, Decimal, dates, durations and lists of these"
            problems.append(Diagnostic("type-mismatch", fact, node.span, hint))
    if problems:
        raise BindError(tuple(problems), text)
    return SourceText(text, EPL, {"parameters": plain})


def _plain(value: Any, config: Config) -> Any:
    value = plain_value(value)
    if isinstance(value, np.ndarray | pd.Series | pd.Index | list | tuple | range):
        return [_plain(item, config) for item in value]
    if is_missing(value):
        return None
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, np.timedelta64):
        value = pd.Timedelta(value)
    if isinstance(value, datetime | date):
        return {"long": to_clock_units(value, config.second, config.time_zone)}
    if isinstance(value, timedelta):
        return {"long": timedelta_units(value, config.second)}
    if isinstance(value, Decimal):
        return {"bigdecimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"of type {type(value).__name__}")
