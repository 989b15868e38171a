"""``%epl compare``: the rows of the workbench beside those of Spark or of another program."""

from __future__ import annotations

from cepbook.errors import UsageError
from cepbook.magics.epl.spark import assign_or_return, complete_statements, run_over, with_spark
from cepbook.magics.shell.host import NotebookHost, Subcommand
from cepbook.magics.shell.options import MagicOptions, number, variable_name

OPTIONS = (
    with_spark(
        MagicOptions("%epl compare").add("statements", nargs="*", help="default: all statements of the other side")
    )
    .add("--with", type=variable_name, help="the variable with the other side: a run on Spark, or frames by statement")
    .add("--key", help="the columns that say which rows belong together: symbol,venue")
    .add("--tolerance", type=number, default=1e-9, help="how far floats may be apart, relative to their size")
    .add("--order", action="store_true", help="rows of one time must come in the same order")
    .add("--assert", action="store_true", help="fail unless all rows were compared and are equal")
)


def compare(host: NotebookHost, arguments: list[str]) -> object:
    """Match the rows that the workbench delivered with those of a run on Spark or of another program."""
    options = OPTIONS.parse_words(arguments)
    other, statements = getattr(options, "with"), options.statements or None
    if other is not None:
        if options.frames is not None or getattr(options, "from") is not None:
            raise UsageError("%epl compare takes --with a variable, or --frames or --from to run on Spark first")
        batch = host.variable(other)
    else:
        batch = run_over(host, options, "%epl compare")(host.workbench, options.statements)
    key = tuple(name.strip() for name in (options.key or "").split(",") if name.strip())
    result = host.workbench.compare(
        batch, statements=statements, key=key, tolerance=options.tolerance, order=options.order
    )
    if getattr(options, "assert"):
        result.assert_same()
    return assign_or_return(host, options, result)


COMPARE = Subcommand(
    "compare",
    compare,
    {
        "%epl compare [STATEMENT …] --with VARIABLE|--frames …|--from TABLE [--key COLUMN,…] [--order] "
        "[--assert]": "Match all rows with those of Spark."
    },
    complete_statements,
)
