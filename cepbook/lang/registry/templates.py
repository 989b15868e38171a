"""Templates of statements that editors offer at the start of a statement: a label and EPL.

They use the event types ``Event`` and ``Other`` with the properties `key` and `value`. In this order all of them can be
deployed: an object is created before it is used.
"""

from __future__ import annotations

STATEMENT_WORDS = (
    "select",
    "insert into",
    "create schema",
    "create window",
    "create table",
    "create context",
    "create variable",
    "create expression",
    "create index",
    "context",
    "on",
    "into table",
    "update istream",
    "expression",
    "module",
    "@name('')",
)
"""Words with which a statement begins."""

STATEMENT_TEMPLATES: dict[str, str] = {
    "create schema: an event type": "create schema Event(key string, value double);",
    "create variable: a value that statements read": "create variable double threshold = 10;",
    "create expression: a name for a calculation": "create expression above { x => x.value > threshold };",
    "create window: a named window, the latest of each key": "create window Latest#unique(key) as Event;",
    "create table: rows by key": "create table Total(key string primary key, total sum(double), seen count(*));",
    "create context: a partition for each key": "create context PerKey partition by key from Event;",
    "create context: sessions that begin and end with events": """create context Session
    initiated by Event(value > 0) as begun
    terminated by Other(key = begun.key);""",
    "select: events that meet a condition": """@name('high')
select *
from Event(value > threshold);""",
    "select: a mean of each group over a sliding window": """@name('means')
select key, count(*) as events, avg(value) as mean
from Event#time(1 min)
group by key;""",
    "select: a summary of every minute": """@name('summary')
select key, count(*) as events, max(value) as most
from Event#time_batch(1 min)
group by key;""",
    "select: at most one row in a while": """@name('calm')
select key, avg(value) as mean
from Event#time(10 min)
group by key
output last every 1 min;""",
    "select: a join of two streams": """@name('pairs')
select e.key as key, e.value as left_value, o.value as right_value
from Event#time(1 min) as e, Other#time(1 min) as o
where e.key = o.key;""",
    "select: with a subquery": """@name('against_all')
select key, value, (select avg(value) from Event#time(10 min)) as mean
from Event;""",
    "select: a pattern, one event after another": """@name('followed')
select a.key as key, a.value as first_value, b.value as second_value
from pattern [every a=Event -> b=Event(key = a.key and value > a.value) where timer:within(1 min)];""",
    "select: a pattern, an event that does not come": """@name('missing')
select a.key as key
from pattern [every a=Event -> (timer:interval(1 min) and not Other(key = a.key))];""",
    "select: a shape in a row of events (match_recognize)": """@name('dips')
select *
from Event match_recognize (
    partition by key
    measures TOP.value as top, last(DOWN.value) as bottom
    pattern (TOP DOWN+ UP)
    define DOWN as DOWN.value < prev(DOWN.value), UP as UP.value > prev(UP.value)
);""",
    "context: a statement in each partition": """@name('per_key')
context PerKey
select key, avg(value) as mean
from Event#length(100);""",
    "insert into: a stream for other statements": """@name('derived')
insert into Derived
select key, value * 2 as value
from Event;""",
    "into table: aggregates by key": """@name('totals')
into table Total
select sum(value) as total, count(*) as seen
from Event
group by key;""",
    "on: change rows of a named window (merge)": """@name('merged')
on Event as e
merge Latest as l
where l.key = e.key
when matched then update set value = e.value
when not matched then insert select e.key as key, e.value as value;""",
    "on: remove rows": """@name('removed')
on Other as o
delete from Latest as l
where l.key = o.key;""",
    "on: look rows up": """@name('found')
on Other as o
select l.key as key, l.value as value
from Latest as l
where l.key = o.key;""",
    "on: set a variable": "on Other set threshold = value;",
}
