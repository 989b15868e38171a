"""The registry of everything that runs: statements, contexts, stores and variables."""

from __future__ import annotations

from cepbook.engine.contexts.context import Context
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import Variables
from cepbook.lang.plan.catalog import Catalog


class StatementRegistry:
    """The running statements and contexts by name, with the catalog and the variables that further modules may use.

    `version` grows with every change of statements or listeners. Routes and replay plans are derived from the registry
    and are valid for one version.
    """

    def __init__(self, services: EngineServices) -> None:
        self.services = services
        self.stores = services.stores
        self.version = 0
        self.variables: Variables = {}
        self.statements: dict[str, RunningStatement] = {}
        self.contexts: dict[str, Context] = {}

    @property
    def catalog(self) -> Catalog:
        """Names that modules may refer to."""
        return self.services.catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        self.services.catalog = catalog

    def readers(self, type_name: str) -> list[RunningStatement]:
        """Return the statements that read events of a type, in delivery order."""
        readers = [statement for statement in self.statements.values() if statement.reads(type_name)]
        return sorted(readers, key=lambda statement: statement.order)
