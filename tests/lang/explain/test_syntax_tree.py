"""The printed syntax tree."""

from __future__ import annotations

from cepbook.lang.explain.syntax_tree import show_ast
from cepbook.lang.syntax.reader.parser import parse_epl

SHOWN = """\
Module
  statements
    Select context=C selector=irstream
      annotations
        Annotation name=name value=x
      items
        SelectItem expr=a
        SelectItem expr=(sum(b))+1 alias=s
      sources
        StreamSource
          stream: FilterStream type_name=A
            filters: x>1, y=2
          windows
            Window name=length
              args: 5
      where: a>1
      order_by
        OrderItem expr=a descending=True
    CreateSchema name=Q
      columns
        ColumnDef name=a type_name=int
        ColumnDef name=b type_name=string dimensions=1
      inherits: R, S"""


def test_tree_shows_what_was_written() -> None:
    text = (
        "@name('x') context C select irstream a, sum(b)+1 as s from A(x>1, y=2)#length(5) where a > 1 order by a desc;"
    )
    assert show_ast(parse_epl(f"{text} create schema Q(a int, b string[]) inherits R, S")) == SHOWN


def test_every_kind_of_statement_can_be_shown() -> None:
    text = """
    select * from pattern [every a=A -> (b=B or timer:interval(5 sec))] output last every 5 sec;
    create context C context A partition by x from A, context B start @now end after 5 sec;
    on A merge W when matched then update set x = 1 when not matched then insert select a, b;
    create expression js:f(x) [ return x; ]; create table T(k string primary key, c count(*));
    select a from A match_recognize (measures A.x as x pattern (A B*) define A as x > 1)
    """
    shown = show_ast(parse_epl(text))
    for word in ("PatternFollowedBy", "NestedContext", "MergeBranch matched=True", "ExpressionDecl", "RowPattern"):
        assert word in shown
