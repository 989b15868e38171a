"""The syntax tree of EPL: what was written, before any name is resolved.

Nodes are frozen and slotted; children are fields or tuples. Keywords are lower case, identifiers keep their case and
lose their backticks. Every node carries the `Span` of its text. The binder decides what a name means.

This package exports the nodes of all its modules: `from cepbook.lang.syntax import ast`, then `ast.Select`.
"""

# ruff: noqa: F403
from cepbook.lang.syntax.ast.clauses import *
from cepbook.lang.syntax.ast.context import *
from cepbook.lang.syntax.ast.cycles import *
from cepbook.lang.syntax.ast.expressions import *
from cepbook.lang.syntax.ast.pattern import *
from cepbook.lang.syntax.ast.select import *
from cepbook.lang.syntax.ast.statements import *
from cepbook.lang.syntax.ast.streams import *
from cepbook.lang.syntax.ast.syntax_node import *
from cepbook.lang.syntax.ast.trigger import *
