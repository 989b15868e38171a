"""The documentation of clauses, windows, aggregates, functions, methods and problems, as text from their rows."""

from __future__ import annotations

from cepbook.lang.registry.aggregates import AggregateRow
from cepbook.lang.registry.clauses import ClauseRow
from cepbook.lang.registry.foreign_words import ForeignWord
from cepbook.lang.registry.functions import FunctionRow
from cepbook.lang.registry.methods import MethodRow
from cepbook.lang.registry.problem_codes import ProblemRow
from cepbook.lang.registry.windows import WindowRow


def clause_doc(row: ClauseRow) -> str:
    return _doc(row.name, row.doc, row.example)


def window_signature(row: WindowRow) -> str:
    """``#ext_timed(timestamp, period [, reference point])``."""
    parameters = ""
    for parameter in row.parameters:
        name = f"{parameter.name}, …" if parameter.repeated else parameter.name
        comma = ", " if parameters else ""
        parameters += f" [{comma}{name}]" if parameter.optional else comma + name
    return f"#{row.name}({parameters.strip()})" if row.parameters else f"#{row.name}"


def window_doc(row: WindowRow) -> str:
    return _doc(f"{window_signature(row)}  (#{row.namespace}:{row.name})", row.doc, row.example)


def aggregate_doc(row: AggregateRow) -> str:
    return _doc(f"{row.name}: aggregation function, nulls {row.nulls}", row.doc, row.example)


def function_doc(row: FunctionRow) -> str:
    parameters = ", ".join(row.parameters) + (", …" if row.repeats else "")
    return _doc(f"{row.name}({parameters})", row.doc, row.example)


def method_doc(row: MethodRow) -> str:
    """Return the forms of a method: ``datetime.set(field, value)``."""
    forms = (", ".join(p.name if p.shape == "value" else "lambda" for p in form.parameters) for form in row.forms)
    return _doc("  ".join(f"{row.name}({form})" for form in dict.fromkeys(forms)), row.doc, row.example)


def _doc(head: str, doc: str, example: str) -> str:
    return f"{head}\n  {doc}\n  example: {example}"


def foreign_doc(row: ForeignWord) -> str:
    """Return what EPL has instead of a word of another system, with the line to write."""
    return _doc(f"{', '.join((row.name, *row.also))}: a word of other systems", row.doc, row.example)


def problem_doc(row: ProblemRow) -> str:
    """Return what a code means and how to mend it."""
    return f"{row.name}: a kind of problem\n  {row.doc}\n  {row.remedy}"
