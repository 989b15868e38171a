"""The clauses and keywords of EPL, one row each, for help at the cursor and ``%epl help``."""

from __future__ import annotations

from dataclasses import dataclass

EXAMPLE_TYPES = "create schema A(id string, price double); create schema B(id string, price double)"


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """A clause or operator; `keywords` lead to it, separated by blanks, and `example` is a statement that uses it."""

    name: str
    doc: str
    example: str
    keywords: str = ""

    @property
    def words(self) -> list[str]:
        """The keywords; if none are listed, the words of the name."""
        return (self.keywords or self.name.replace(",", "")).split()


_ROWS = (
    ClauseRow(
        name="select",
        doc="The columns of the output; * is all properties.",
        example="select id, price * 2 as twice from A",
    ),
    ClauseRow(
        name="irstream, istream, rstream",
        doc=(
            "Which streams are delivered: the insert stream (istream, the default), the remove stream of what "
            "leaves the window, or both."
        ),
        example="select irstream * from A#length(2)",
    ),
    ClauseRow(
        name="from",
        doc="The event type, its filter in parentheses, and its data windows.",
        example="select * from A(price > 5)#time(1 min)",
    ),
    ClauseRow(
        name="where",
        doc=(
            "Which rows go on, after the data window; a filter in parentheses behind the type keeps events out of it."
        ),
        example="select * from A#keepall where price > 5",
    ),
    ClauseRow(
        name="group by",
        doc="Aggregates are of each group of equal keys; rollup, cube and grouping sets add totals.",
        example="select id, sum(price) as total from A#time(1 min) group by id",
    ),
    ClauseRow(
        name="rollup, cube, grouping sets",
        doc="Totals of several groupings in one statement.",
        example="select id, sum(price) as total from A#time(1 min) group by rollup(id)",
    ),
    ClauseRow(
        name="having",
        doc="Which rows are delivered, by values of aggregates.",
        example="select id, count(*) as n from A#time(1 min) group by id having count(*) > 3",
    ),
    ClauseRow(
        name="output",
        keywords="output after all last snapshot first",
        doc=(
            "When rows are delivered: every so many events or so long, at times of a crontab, when a condition "
            "holds, when a context partition ends; of what came in between all, the first, the last rows, or the "
            "present state (snapshot)."
        ),
        example="select id, count(*) as n from A group by id output last every 10 sec",
    ),
    ClauseRow(
        name="order by",
        keywords="order asc desc",
        doc="The order of the rows of one delivery.",
        example="select * from A#time_batch(1 sec) order by price desc",
    ),
    ClauseRow(
        name="limit, offset",
        doc="At most so many rows of one delivery, after leaving out the first.",
        example="select * from A#time_batch(1 sec) order by price limit 3",
    ),
    ClauseRow(
        name="for",
        keywords="for grouped_delivery discrete_delivery",
        doc="What comes at once as several deliveries: of rows of equal values, or of one row each.",
        example="select * from A#time_batch(1 sec) for grouped_delivery(id)",
    ),
    ClauseRow(
        name="distinct",
        doc="Equal rows of one delivery once; in an aggregate, equal values once.",
        example="select distinct id from A#length_batch(4)",
    ),
    ClauseRow(
        name="insert into",
        keywords="insert into values",
        doc="The rows become events of a stream, a named window or a table that other statements read.",
        example="insert into Big select id, price from A(price > 5)",
    ),
    ClauseRow(
        name="pattern",
        doc="Events that belong together: ->, and, or, not, every, until, guards and timers.",
        example="select a.id as id from pattern [every a=A -> B(id = a.id)]",
    ),
    ClauseRow(
        name="every",
        doc="In a pattern: begin anew for each match. In output: how often.",
        example="select a.id as id from pattern [every a=A]",
    ),
    ClauseRow(
        name="->",
        doc="In a pattern: first the left side, then the right one.",
        example="select a.id as id from pattern [every a=A -> B]",
    ),
    ClauseRow(
        name="until",
        doc="In a pattern: collect the left side until the right one comes.",
        example="select a[0].id as id from pattern [a=A until B]",
    ),
    ClauseRow(
        name="timer",
        keywords="timer interval within",
        doc="In a pattern: a span of time, a point in time, or a guard that ends a part.",
        example="select a.id as id from pattern [every a=A -> (timer:interval(10 sec) and not B)]",
    ),
    ClauseRow(
        name="join",
        keywords="join inner left right full outer on",
        doc=(
            "Rows of two or more streams with windows that belong together; outer joins keep those without a "
            "partner. on equates properties of both, and takes further conditions behind and. As a statement, on "
            "begins one that an event triggers."
        ),
        example="select * from A#lastevent as a left outer join B#keepall as b on a.id = b.id and b.price > a.price",
    ),
    ClauseRow(
        name="unidirectional",
        doc="Only events of this stream cause rows of the join; it has no window.",
        example="select * from A as a unidirectional, B#keepall as b where a.id = b.id",
    ),
    ClauseRow(
        name="context",
        doc="The statement exists once for each partition of a context.",
        example="create context Each partition by id from A; context Each select sum(price) as total from A",
    ),
    ClauseRow(
        name="partition by",
        keywords="partition",
        doc="A partition of the context for each key.",
        example="create context Each partition by id from A",
    ),
    ClauseRow(
        name="initiated by, terminated by",
        keywords="initiated terminated",
        doc="Overlapping partitions of a context: each event, pattern or time begins another one.",
        example="create context Each initiated by A as a terminated after 1 min",
    ),
    ClauseRow(
        name="start, end",
        doc="One partition of a context at a time: it begins and ends at events, patterns or times.",
        example="create context Daily start (0, 9, *, *, *) end (0, 17, *, *, *)",
    ),
    ClauseRow(
        name="coalesce by, granularity",
        keywords="coalesce granularity",
        doc="A context of a fixed number of partitions by hash; as a function, the first value that is not null.",
        example="create context Few coalesce by consistent_hash_crc32(id) from A granularity 4",
    ),
    ClauseRow(
        name="create schema", doc="Declares an event type.", example="create schema Tick(symbol string, price double)"
    ),
    ClauseRow(
        name="create window",
        keywords="window",
        doc="A named window: rows that statements fill, change and read.",
        example="create window Latest#unique(id) as A",
    ),
    ClauseRow(
        name="create table",
        keywords="table primary key",
        doc="Rows with primary keys, changed by merge, update, delete and by aggregation (into table).",
        example="create table Totals(id string primary key, total sum(double))",
    ),
    ClauseRow(
        name="create variable",
        keywords="variable constant",
        doc="A value that expressions read and statements or %epl set assign.",
        example="create variable double low = 5",
    ),
    ClauseRow(
        name="on … set",
        keywords="set",
        doc="Assigns variables when an event comes; in update and merge, columns.",
        example="create variable double low = 5; on A set low = price",
    ),
    ClauseRow(
        name="on … merge",
        keywords="merge matched then",
        doc="Inserts, updates or deletes rows of a named window or table for each event.",
        example=(
            "create window W#keepall as A; on A as a merge W as w where a.id = w.id when matched then update set "
            "price = a.price when not matched then insert select *"
        ),
    ),
    ClauseRow(
        name="update istream",
        keywords="update",
        doc="Changes events before any statement sees them.",
        example="update istream A set price = price * 2 where price < 0",
    ),
    ClauseRow(
        name="delete",
        doc="Takes rows out of a named window or table.",
        example="create window W#keepall as A; on B as b delete from W as w where w.id = b.id",
    ),
    ClauseRow(
        name="match_recognize",
        keywords="match_recognize measures define",
        doc="Finds shapes in ordered rows by a regular expression over conditions.",
        example=(
            "select * from A match_recognize (measures u.price as p pattern (d u) define d as d.price < 5, u as "
            "u.price > 5)"
        ),
    ),
    ClauseRow(
        name="case",
        keywords="case when else",
        doc="The value of the first condition that holds.",
        example="select case when price > 5 then 'high' else 'low' end as level from A",
    ),
    ClauseRow(
        name="in",
        doc="Whether a value is one of a list, of a range or of a subquery.",
        example="select * from A(id in ('a', 'b'))",
    ),
    ClauseRow(
        name="between",
        doc="Whether a value lies in a range, both ends included.",
        example="select * from A(price between 1 and 5)",
    ),
    ClauseRow(
        name="like, regexp",
        doc="Whether a text fits a pattern: with % and _, or a regular expression.",
        example="select * from A(id like 'x%')",
    ),
    ClauseRow(
        name="exists",
        doc="Whether a subquery has a row; of a dynamic property, whether the event has it.",
        example="select * from A as a where exists (select * from B#keepall as b where b.id = a.id)",
    ),
    ClauseRow(name="is", doc="Equality where null equals null.", example="select * from A(price is not null)"),
    ClauseRow(
        name="as", doc="Gives a column, a stream or a declared thing its name.", example="select price as p from A as a"
    ),
    ClauseRow(
        name="and, or, not",
        doc="Logic with three values: what is null is neither true nor false. In a pattern: both, either, not yet.",
        example="select * from A(price > 1 and not id = 'x')",
    ),
    ClauseRow(
        name="prev, prevtail, prevcount, prevwindow",
        doc="An event of the data window by its place from the newest or the oldest on; their number; all of them.",
        example="select price, prev(1, price) as before, prevcount(price) as held from A#length(5)",
    ),
    ClauseRow(
        name="prior",
        doc="The event that came so many events before, whatever the data window holds.",
        example="select price - prior(1, price) as change from A",
    ),
    ClauseRow(
        name="cast",
        doc="The value as another type; dateformat: says how a text is read as a date.",
        example="select cast(price, int) as whole, cast(id, long, dateformat: 'yyyy-MM-dd') as since from A",
    ),
    ClauseRow(
        name="instanceof",
        doc="Whether a value is of one of these types; null is of none.",
        example="select instanceof(id, string) as is_text from A",
    ),
    ClauseRow(
        name="current_timestamp",
        doc="The time of the engine in milliseconds.",
        example="select id, current_timestamp as at from A",
    ),
    ClauseRow(
        name="current_evaluation_context",
        doc="What the statement knows of itself: its name, the number of its context partition.",
        example="select current_evaluation_context().getStatementName() as statement from A",
    ),
    ClauseRow(
        name="expression",
        keywords="expression alias",
        doc="Declares an expression, with parameters or as an alias: for one statement, or with create for all.",
        example="expression twice {x => x.price * 2} select twice(a) as p from A as a",
    ),
    ClauseRow(
        name="new",
        doc="Makes an object with named properties, or an array.",
        example="select new {name = id, twice = price * 2} as made, new int[3] as zeros from A",
    ),
    ClauseRow(
        name="transpose",
        doc="In insert into: the properties of one value become those of the event.",
        example="insert into Copy select transpose(a) from A as a",
    ),
    ClauseRow(
        name="grouping_id",
        doc="With rollup, cube and grouping sets: which keys a row is grouped by, as a number.",
        example="select id, price, grouping_id(id, price) as level, count(*) as n from A group by rollup(id, price)",
    ),
    ClauseRow(
        name="any, some, all",
        keywords="any some",
        doc="Compares with each of several values: any (some) is true if one comparison is, all if all are.",
        example="select price > any (1, 5) as above from A",
    ),
    ClauseRow(
        name="null, true, false",
        doc="No value; the values of boolean. What compares with null is neither true nor false.",
        example="select id is null as unnamed, true as yes from A",
    ),
    ClauseRow(
        name="escape",
        doc="The character that takes % and _ literally in like.",
        example="select * from A(id like 'a!_%' escape '!')",
    ),
    ClauseRow(
        name="time units",
        keywords=(
            "year month week day hour minute second millisecond microsecond years months weeks days hours minutes "
            "seconds milliseconds microseconds sec msec usec"
        ),
        doc="A span of time; months and years are those of the calendar.",
        example="select * from A#time(1 hour 30 minutes)",
    ),
    ClauseRow(
        name="inherits, copyfrom",
        doc="A schema with the properties of another: as a kind of it, or only as a copy.",
        example="create schema Special(extra int) inherits A",
    ),
    ClauseRow(
        name="starttimestamp, endtimestamp",
        doc="The properties that say from when to when an event lasts, for interval algebra such as overlaps.",
        example="create schema Stay(begins long, ends long) starttimestamp begins endtimestamp ends",
    ),
    ClauseRow(name="const", doc="A variable that cannot be set.", example="create const variable int most = 5"),
    ClauseRow(
        name="create index",
        keywords="index",
        doc="An index that all use who look into a named window or a table; unique refuses a second row of a key.",
        example="create window Kept#keepall as A; create unique index ById on Kept(id)",
    ),
    ClauseRow(
        name="retain-union",
        keywords="retain union intersection",
        doc="Of several data windows of one stream: an event stays while one of them holds it, not all.",
        example="select * from A#length(3)#time(10 sec) retain-union",
    ),
    ClauseRow(
        name="while",
        doc="In a pattern: ends the part before it with the first match for which the condition is not true.",
        example="select a.id as id from pattern [(every a=A) while (a.price < 5)]",
    ),
    ClauseRow(
        name="at",
        keywords="at lastweekday weekday",
        doc="At times of the calendar: minute, hour, day of month, month, day of week.",
        example="select count(*) as n from A output at (0, 18, lastweekday, *, *)",
    ),
    ClauseRow(
        name="events",
        keywords="events event",
        doc="How many events an output clause waits for; update istream and contained selection have the word, too.",
        example="select id from A output every 3 events",
    ),
    ClauseRow(
        name="inclusive",
        doc="The event that begins or ends a context partition is one of its events.",
        example="create context C initiated by A as a terminated by A(id = a.id) inclusive",
    ),
    ClauseRow(
        name="now",
        doc="In a context: begin when it is deployed.",
        example="create context C start @now end after 1 min",
    ),
    ClauseRow(
        name="preallocate",
        doc="Of a context by hash: all partitions are there from the beginning.",
        example="create context C coalesce by consistent_hash_crc32(id) from A granularity 4 preallocate",
    ),
    ClauseRow(
        name="after match skip",
        keywords="skip match current next past row to",
        doc="In match_recognize: where the search goes on behind a match.",
        example="select * from A match_recognize (measures X.id as id after match skip to next row pattern (X Y))",
    ),
    ClauseRow(
        name="matches",
        doc="In match_recognize, all matches: those that share rows, too.",
        example="select * from A match_recognize (measures X.id as id all matches pattern (X Y))",
    ),
    ClauseRow(
        name="module, uses, import",
        doc="The name of a module, and what it says that it needs; nothing is loaded.",
        example="module falls; select id from A",
    ),
    ClauseRow(
        name="precedence",
        doc="Of an insert into: with Config(precedence=True) inserted events of higher precedence are processed first.",
        example="insert into Big event-precedence(2) select id from A",
    ),
    ClauseRow(
        name="method, sql, dataflow",
        keywords="method sql metadatasql dataflow",
        doc="Rows from elsewhere, which Python does here: not supported, and said so where they are written.",
        example="select id from A /* for method: and sql: register a Python function */",
    ),
)

CLAUSES: dict[str, ClauseRow] = {row.name: row for row in _ROWS}

CLAUSE_OF_KEYWORD: dict[str, ClauseRow] = {word: row for row in reversed(_ROWS) for word in row.words}
"""The row that tells of a keyword."""
