"""The other statements, and the module that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from typing import Literal as L

from cepbook.lang.syntax.ast.clauses import Assignment, ExpressionDecl, SelectItem, Statement
from cepbook.lang.syntax.ast.context import ContextSpec
from cepbook.lang.syntax.ast.expressions import Expr
from cepbook.lang.syntax.ast.streams import Window
from cepbook.lang.syntax.ast.syntax_node import Annotation, SyntaxNode


@dataclass(frozen=True, slots=True)
class CreateExpression(Statement):
    declaration: ExpressionDecl


@dataclass(frozen=True, slots=True)
class ColumnDef(SyntaxNode):
    """``name type``; ``type[]``, ``type[primitive]``, ``primary key``; `dimensions` counts brackets."""

    name: str
    type_name: str
    dimensions: int = 0
    primary_key: bool = False
    annotations: tuple[Annotation, ...] = ()
    type_args: tuple[str, ...] = ()  # ``java.util.List<string>``
    aggregate: Expr | None = None  # create table columns such as count(*), sum(double)
    primitive: bool = False


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    """`representation` map objectarray json avro bean variant or None; `alias_of` for ``as some.Class``."""

    name: str
    columns: tuple[ColumnDef, ...] = ()
    inherits: tuple[str, ...] = ()
    copyfrom: tuple[str, ...] = ()
    representation: str | None = None
    alias_of: tuple[str, ...] = ()
    start_timestamp: str | None = None
    end_timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class CreateContext(Statement):
    name: str
    spec: ContextSpec


@dataclass(frozen=True, slots=True)
class CreateVariable(Statement):
    name: str
    type_name: str
    dimensions: int = 0
    constant: bool = False
    initial: Expr | None = None
    type_args: tuple[str, ...] = ()
    primitive: bool = False


@dataclass(frozen=True, slots=True)
class CreateWindow(Statement):
    name: str
    windows: tuple[Window, ...]
    columns: tuple[ColumnDef, ...] = ()
    as_type: str | None = None
    select: tuple[SelectItem, ...] | None = None
    insert: bool = False
    insert_where: Expr | None = None
    retain: L["union", "intersection"] | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: str
    columns: tuple[ColumnDef, ...]


@dataclass(frozen=True, slots=True)
class IndexColumn(SyntaxNode):
    """``a btree``, or several columns: ``(x, y) pointregionquadtree(0, 0, 100, 100)``."""

    key: Expr
    kind: str
    parameters: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    name: str
    target: str
    columns: tuple[IndexColumn, ...]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class UpdateIStream(Statement):
    """``update istream Type as x set … where …``"""

    type_name: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class FafUpdate(Statement):
    """Fire-and-forget ``update Target set …``"""

    target: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None

    @property
    def changed_store(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class FafDelete(Statement):
    target: str
    alias: str | None
    where: Expr | None

    @property
    def changed_store(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class FafInsert(Statement):
    """``insert into W (cols) values (…)``, several rows; ``insert into W select …`` is a Select."""

    target: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]

    @property
    def changed_store(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class CreateDataflow(Statement):
    """Recognised and refused by the binder; `text` is its body."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Module(SyntaxNode):
    """``module x.y; uses a.b; import …;`` and the statements, in order.

    `forms`: of each statement what it has beside the template that built it (`reader.syntax_templates`), or None. A
    changed copy of a module has none.
    """

    statements: tuple[Statement, ...]
    name: str | None = None
    uses: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    forms: tuple[Any, ...] = field(default=(), init=False, compare=False, repr=False)
