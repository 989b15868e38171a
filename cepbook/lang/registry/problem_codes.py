"""The kinds of problem that a text can have, one row each: for ``%epl help CODE`` and a page with an address per code.

The code stands before the colon of a message: ``unknown-property: no property `pric` in `Tick```. A message of one kind
is worded by the place that reports it. The row says what all messages of the kind have in common.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A kind of problem: what it means, how to mend it, and a text that has it, where one statement is enough."""

    name: str
    doc: str
    remedy: str
    example: str = ""


_ROWS = (
    ProblemRow(
        "syntax",
        "The text is not EPL at the place of the caret. The message says what was expected there.",
        "Follow the hint. The problem is often one word before the caret: a missing comma or parenthesis. Put a name "
        "that is a keyword into backticks.",
        "select symbol, from Tick",
    ),
    ProblemRow(
        "syntax-error",
        "A query of another dialect has a mistake at the place of the caret.",
        "Follow the hint, or compare with the page about dialects.",
    ),
    ProblemRow(
        "not-supported-yet",
        "The text is valid EPL that this engine does not run. Nothing was deployed.",
        "Look at the page about limits: it says what to write instead, where there is something.",
        "select * from Tick, sql:db ['select 1 as x'] as s",
    ),
    ProblemRow(
        "unknown-property",
        "The event type has no property of this name, or no stream of the from-clause has it.",
        "Correct the name, or add the property to `create schema`. Names are case-sensitive; text stands in quotes.",
        "select pric from Tick",
    ),
    ProblemRow(
        "ambiguous-property",
        "Several streams of the from-clause have a property of this name.",
        "Write the name of the stream in front: `t.symbol`.",
        "select symbol from Tick#lastevent as t, Tick#lastevent as u",
    ),
    ProblemRow(
        "unknown-type",
        "There is no event type, named window or table of this name.",
        "Define it with `create schema` or `cep.define`, in this text or before. Names are case-sensitive.",
        "select * from Tik",
    ),
    ProblemRow(
        "unknown-name",
        "The name is none of those that can stand at this place.",
        "Choose one of the names that the hint lists.",
    ),
    ProblemRow(
        "duplicate-name",
        "The name is in use: by a type, a window, a context, a statement of the same text, a column or a stream.",
        "Choose another name. To replace what a cell has deployed, run the same cell again.",
        "select symbol as a, price as a from Tick",
    ),
    ProblemRow(
        "type-mismatch",
        "Types do not go together: text and a number in a comparison, a condition that is no boolean.",
        "Convert one side, for example with `cast(x, double)`, or correct the type in `create schema`.",
        "select * from Tick where price > 'high'",
    ),
    ProblemRow(
        "unknown-function",
        "There is no function, aggregation function or method of this name.",
        "Correct the name, look it up with `%epl help functions`, or register a Python function with `@cep.function`.",
        "select averag(price) from Tick",
    ),
    ProblemRow(
        "unknown-window",
        "There is no data window of this name.",
        "`%epl help windows` lists the data windows.",
        "select * from Tick#tim(5)",
    ),
    ProblemRow(
        "unknown-context",
        "There is no context of this name.",
        "Create the context first, in this text or before.",
        "context PerKey select * from Tick",
    ),
    ProblemRow(
        "unknown-variable",
        "There is no variable of this name.",
        "Create it with `create variable`, or correct the name.",
        "on Tick set threshold = 5",
    ),
    ProblemRow(
        "constant-variable",
        "A statement assigns a variable that was created as a constant.",
        "Leave `constant` out of `create variable`, or do not assign the variable.",
        "create constant variable int limit_ = 5; on Tick set limit_ = 6",
    ),
    ProblemRow(
        "unknown-store",
        "There is no named window or table of this name.",
        "Create it with `create window` or `create table`, in this text or before.",
        "on Tick delete from Newest",
    ),
    ProblemRow(
        "unknown-annotation",
        "There is no annotation of this name.",
        "Correct the name. `%epl help clauses` lists the annotations.",
        "@nam('x') select * from Tick",
    ),
    ProblemRow(
        "unknown-parameter",
        "The text has a parameter `:name` without a value, or a value was given for a parameter that it does not have.",
        "Give the value: `cep.run(text, parameters={…})`, or in a cell a Python variable of this name.",
    ),
    ProblemRow(
        "wrong-parameter",
        "A data window, function or clause got a parameter of a wrong number, type or range.",
        "`%epl help NAME` lists the parameters with their types.",
        "select * from Tick#length(-1)",
    ),
    ProblemRow(
        "aggregate-not-allowed",
        "An aggregation function stands where rows are not aggregated yet, such as `where`.",
        "Put a condition on an aggregated value into `having`.",
        "select symbol from Tick where sum(price) > 5",
    ),
    ProblemRow(
        "nested-aggregate",
        "An aggregation function has another one as its argument.",
        "Compute the inner value in a statement of its own, with `insert into`.",
    ),
    ProblemRow(
        "invalid-group-by",
        "The keys of `group by` are wrong: a constant, the same key twice, or grouping sets without a key.",
        "Group by properties or by expressions over them, each once.",
        "select symbol, sum(price) from Tick group by 1",
    ),
    ProblemRow(
        "wrong-context",
        "A statement does not fit its context: another event type, a store of another context, a wrong selector.",
        "Read the fact in the message; the page about contexts has an example for each kind.",
    ),
    ProblemRow(
        "no-order",
        "The rows have no order in which this construct could look back.",
        "Add a data window, or an order-by clause.",
    ),
    ProblemRow(
        "wrong-key",
        "The key of a table, index or partition does not fit its columns.",
        "Use the columns and types of the key, in its order.",
    ),
    ProblemRow(
        "wrong-query",
        "A query that runs once has a clause that only a continuous statement can have, or the other way round.",
        "Deploy it with `cep.run` or `%%epl`, or leave the clause out.",
    ),
    ProblemRow(
        "wrong-rstream",
        "The remove stream is selected where there is none, or the statement cannot deliver it.",
        "Select the insert stream, or add a data window from which events leave.",
    ),
    ProblemRow("wrong-window", "A data window of a query in another dialect does not fit its stream.",
               "Follow the hint; the page about dialects has the data windows of each dialect."),
    ProblemRow("wrong-event", "An event template of a query of another dialect does not fit the event type.",
               "Give the fields in the order of the event type."),
    ProblemRow("wrong-template", "An event template of a query of another dialect is no template.",
               "Write `Type(field = value)`, or `Type()` for all events."),
    ProblemRow("wrong-having", "The having clause of a query of another dialect does not fit what it selects.",
               "Use aggregated values and the keys of the groups only."),
    ProblemRow("wrong-group-by", "The group-by clause of a query of another dialect does not fit what it selects.",
               "Group by what the select clause has beside aggregated values."),
    ProblemRow("wrong-select", "The select clause of a query of another dialect mixes values of events and of groups.",
               "Select aggregated values and the keys of the groups, or values of events."),
    ProblemRow("wrong-name", "The name of a query is no name.", "Use letters, digits and underscores."),
    ProblemRow("unknown-field", "The event type has no field of this name.", "Correct the name."),
    ProblemRow("unknown-method", "There is no method of this name.", "Correct the name."),
    ProblemRow("unknown-stream", "There is no stream of this name.", "Correct the name, or define the stream before."),
    ProblemRow("ambiguous", "Several streams of the query have a column of this name.",
               "Write the name of the stream in front."),
    ProblemRow(
        "too-long",
        "The text is longer than the reader accepts.",
        "Divide it, or send the values as events or parameters.",
    ),
    ProblemRow(
        "too-deep",
        "Parentheses or subexpressions are nested more deeply than the reader accepts.",
        "Divide the expression: declare a part with `create expression`, or use `in (…)` instead of a chain of `or`.",
    ),
    ProblemRow(
        "pattern-too-large",
        "A repetition of `match_recognize` allows more rows than the engine keeps track of.",
        "Give a smaller bound, or `+` and a data window.",
    ),
    ProblemRow(
        "unchecked",
        "The text is not checked from this place on, because many problems precede.",
        "Correct the first problems, and run the text again.",
    ),
    ProblemRow(
        "dependant",
        "A deployed statement needs what this text would remove or change.",
        "Keep it, or drop the dependent statement first: `%epl drop NAME`.",
    ),
    ProblemRow(
        "replaced",
        "The cell replaces what it deployed before, and the new text has a problem that follows from this.",
        "Deploy it in a cell of its own, or drop the former statements first.",
    ),
    ProblemRow(
        "initial-value",
        "The initial value of a variable raised an error.",
        "Correct the expression; it runs once, when the variable is created.",
    ),
    ProblemRow(
        "not-unique",
        "Existing rows have the same key in a new unique index.",
        "Remove these rows, or leave `unique` out.",
    ),
    ProblemRow(
        "state-limit",
        "A statement keeps more than `Config.state_limit` allows. No event enters the engine.",
        "Bound the statement by a data window or a context that ends, drop it, or raise the limit.",
    ),
    ProblemRow(
        "pattern-limit",
        "A pattern has more partial matches than `Config` allows.",
        "Bound the pattern with `where timer:within(…)`, or `every-distinct`.",
    ),
    ProblemRow("unknown-event-type", "A cell of events names a type that is not defined.",
               "Define it with `create schema` or `cep.define`."),
    ProblemRow("wrong-type", "A value in a cell of events does not fit the type of its property.",
               "Write a value of the type that the message names."),
    ProblemRow("time-going-backwards", "A time in a cell of events is earlier than the clock.",
               "Give a later time, or reset the workbench."),
    ProblemRow("unknown-statement", "An expectation names a statement that is not deployed.", "Correct the name."),
    ProblemRow("expect-syntax", "An expected reaction is written in a way that cannot be read.",
               "Write `NAME + column=value`, as the page about tests shows."),
    ProblemRow("query", "A query in a cell of events is wrong.", "Follow the message of the query."),
    ProblemRow("usage", "A magic was written in a way that it does not have.", "`%epl help MAGIC` lists the forms."),
    ProblemRow("unknown-cell", "A line `%%NAME` begins a cell that the playground does not have.",
               "Write `%%epl`, or the line of a dialect as in a notebook."),
    ProblemRow("unexpected-text", "Text stands where the playground expects a cell.",
               "Begin the text with a line `%%epl`."),
)  # fmt: skip
PROBLEMS = {row.name: row for row in _ROWS}
