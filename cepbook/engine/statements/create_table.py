"""`create table` as a running statement: a generated module without events, for the rows of one table.

The generated functions:

- `new_cells(r)` returns the cells of a new row: the accumulators of all aggregation columns, `PLACES[name]` being the
  slice of one column, and last the row itself. It also sets the initial values of these columns in `r`.
- `HELD[name](cells)` returns the accumulator of a column whose aggregate has methods.
- `key_of(r)` returns the primary key: one value, a tuple of several, or `()` for a table of one row.
- `new_state(P, now)` returns a `TableState` without rows.
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.engine.aggregates.incremental import AggregateCodegen
from cepbook.engine.aggregates.table_columns import table_column_cells
from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ScopeFactory
from cepbook.engine.fragments.codegen_context import write_state
from cepbook.engine.physical.operators import Eviction
from cepbook.engine.relations.table import TableFunctions, TableRows, TableState
from cepbook.engine.statements.on_set import statement_program
from cepbook.lang.plan import nodes as p
from cepbook.lang.registry.aggregates import aggregate_row


def table_functions(program: StatementProgram) -> TableFunctions:
    """Return the functions of a `create table` that the running table calls."""
    namespace = program.namespace
    return TableFunctions(namespace["new_cells"], namespace["key_of"], namespace["HELD"], namespace["PLACES"])


def compile_create_table(plan: p.CreateTableStatement, scope_in: ScopeFactory) -> StatementProgram:
    """Compile a `create table`."""
    source = SourceWriter()
    scope = scope_in(source)
    properties = plan.output_type.properties
    with source.block("def on_event(e, S=None):"):
        source.line("return False")
    source.line("on_match = on_event")
    cells, places = table_column_cells(scope, plan.store.calls)
    source.bind("PLACES", places)
    with source.block("def new_cells(r):"):
        initial_values = ", ".join(initial for cell in cells.values() for initial in cell.initial)
        source.line(f"l = [{initial_values}]")
        for name, cell in cells.items():
            cell.load(f"l[{places[name].start}:{places[name].stop}]")
            source.line(f"r[{source.const(name, 'n')}] = {cell.values[0]}")
        source.line("l.append(r)")
        source.line("return l")
    readers = []
    for number, (name, call) in enumerate(plan.store.calls.items()):
        if aggregate_row(call.name).methods:
            readers.append(f"{source.const(name, 'n')}: held{number}")
            code = AggregateCodegen(scope, [replace(call, reference=True)], Eviction.ARBITRARY, False, f"c{number}_")
            with source.block(f"def held{number}(cells):"):
                code.load(f"cells[{places[name].start}:{places[name].stop}]")
                source.line(f"return {code.values[0]}")
    source.line(f"HELD = {{{', '.join(readers)}}}")
    with source.block("def key_of(r):"):
        codes = [key_code(source, f"r[{source.const(name, 'n')}]", properties[name]) for name in plan.store.keys]
        source.line(f"return {codes[0] if len(codes) == 1 else '(' + ', '.join(codes) + ')'}")
    rows = "[item[1][-1] for item in S.view.display_order()]"
    write_state(source, TableState, rows, view=f"{source.bind('_Rows', TableRows)}()")
    program = statement_program(plan, source, ())
    program.row_columns = None
    return program
