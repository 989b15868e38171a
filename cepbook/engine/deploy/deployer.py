"""The deployer: modules come, go and are replaced, each wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.deploy.builder import BuiltModule, build_module, try_to_start
from cepbook.engine.deploy.compiler import CompiledModule, bind_text, compile_plan
from cepbook.engine.deploy.deployments import (
    Deployment,
    catalog_without,
    dependants,
    deployments_using,
    explain_redeploy_error,
    fresh_id,
    split_off_statement,
    statement_names_text,
)
from cepbook.engine.deploy.naming import lookup_name
from cepbook.engine.dispatch.routing import StatementRegistry
from cepbook.engine.dispatch.turn import Turn, run_all_steps
from cepbook.engine.relations.store import apply_declared_indexes
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import Variables
from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import ModulePlan, SelectStatement


class Deployer:
    """Deploys modules into a registry, and undeploys them.

    `functions` are Python functions, `next_order` takes a priority, and `changed(statements)` is called with the
    statements that came or went. The runtime must not be broken (`Turn.check`).

    A deployment costs the same however many there are: only names that it declares are looked at. `touched` has the ids
    of deployments and the names of their statements and contexts that came or went. Whoever follows the deployments
    clears it.
    """

    def __init__(
        self,
        registry: StatementRegistry,
        turn: Turn,
        functions: Mapping[str, Callable[..., Any]],
        notices: PartitionListeners,
        next_order: Callable[[int], tuple[int, int]],
        changed: Callable[[Sequence[RunningStatement]], None],
    ) -> None:
        self._registry = registry
        self._services = registry.services
        self._config = registry.services.config
        self._turn = turn
        self._functions = functions
        self._notices = notices
        self._next_order = next_order
        self._changed = changed
        self.deployments: dict[str, Deployment] = {}
        self.touched: dict[str, None] = {}

    def compile(self, epl: str) -> ModulePlan:
        """Implement `Runtime.compile`."""
        return bind_text(epl, self._registry.catalog, self._config, self._registry.statements.keys())

    def context(self, name: str) -> Context:
        """Return the running context `name`. Errors: UsageError with the nearest known name."""
        return lookup_name("context", name, self._registry.contexts)

    def deploy(self, epl: str | ModulePlan, deployment_id: str | None) -> Deployment:
        """Implement `Runtime.deploy`."""
        id_ = deployment_id if deployment_id is not None else fresh_id(self.deployments)
        if id_ in self.deployments:
            raise UsageError(f"a deployment `{id_}` already exists")
        self._turn.check()
        plan = self.compile(epl) if isinstance(epl, str) else epl
        built = self._build(self._programs(plan, self._registry.catalog, self._registry.variables), id_)
        interruption = None
        with self._turn:
            try:
                self._begin(built)
            except BaseException as failure:  # noqa: BLE001 - raised when nothing is left of it
                interruption = failure
                self._remove(built.deployment)
            if self._turn.queue and interruption is None:
                self._turn.drain(raising=False)  # rows that statements inserted when they started
        if interruption is not None:
            raise interruption
        return built.deployment

    def redeploy(self, deployment_id: str, epl: str) -> Deployment:
        """Implement `Runtime.redeploy`."""
        self._turn.check()
        replaced = self._deployment(deployment_id)
        dependent = dependants(self.deployments, [replaced])
        trial = catalog_without(self._registry.catalog, [replaced, *dependent])
        names = {*self._registry.statements} - {s.name for d in (replaced, *dependent) for s in d.statements}
        variables, compiled = self._registry.variables, list[tuple[str, CompiledModule]]()
        for deployment, source in [(replaced, epl), *((d, d.source) for d in dependent)]:
            with explain_redeploy_error(deployment, deployment is not replaced):
                module = self._programs(bind_text(source, trial, self._config, names), trial, variables)
            compiled.append((deployment.id, module))
            trial, variables = module.catalog, module.variables
            names |= set(module.programs)
        steps = [partial(self._remove, deployment) for deployment in (*reversed(dependent), replaced)]
        self._in_full([*steps, *(partial(self._begin_afresh, module, id_) for id_, module in compiled)])
        return self.deployments[deployment_id]

    def _programs(self, plan: ModulePlan, catalog: Catalog, variables: Variables) -> CompiledModule:
        restoring = self._services.restoring
        compiled = compile_plan(
            plan, catalog, self._services.clock, self._config, self._functions, variables, evaluate=not restoring
        )
        for statement in () if restoring else plan.statements:
            if isinstance(statement, SelectStatement):
                live: Iterable[Any] = (None,)
                if statement.context is not None:  # partitions of a context that keeps running
                    same = catalog.contexts.get(statement.context) is self._registry.catalog.contexts.get(
                        statement.context, 0
                    )
                    live = self.context(statement.context).partitions.values() if same else ()
                try_to_start(self._services, statement, compiled, live)
        return compiled

    def _build(self, compiled: CompiledModule, id_: str) -> BuiltModule:
        return build_module(self._services, compiled, id_, self._next_order, self._notices)

    def _begin(self, built: BuiltModule) -> None:
        self._touch(built.deployment)
        self._registry.catalog, self._registry.variables = built.compiled.catalog, built.compiled.variables
        self._registry.contexts.update(built.contexts)
        self._registry.stores.update(built.stores)
        for statement in built.deployment.statements:
            context = statement.steps.context
            self._registry.add(statement)
            statement.start(None if context is None else self.context(context))
        self.deployments[built.deployment.id] = built.deployment
        self._settle(built.deployment)

    def _begin_afresh(self, compiled: CompiledModule, id_: str) -> None:
        """Start a module, after removing what an interruption may have left of it."""
        built = self._build(compiled, id_)
        if id_ in self.deployments or any(s.name in self._registry.statements for s in built.deployment.statements):
            self._remove(built.deployment)
        self._begin(built)

    def undeploy(self, deployment_id: str, *, cascade: bool) -> None:
        """Implement `Runtime.undeploy`."""
        self._turn.check()
        deployment = self._deployment(deployment_id)
        others = dependants(self.deployments, [deployment])
        if others and not cascade:
            raise UsageError(
                f"deployment `{deployment_id}` is used by {statement_names_text(others)}; drop these first"
            )
        self._in_full([partial(self._remove, dependent) for dependent in (*reversed(others), deployment)])

    def undeploy_statement(self, deployment_id: str, name: str) -> bool:
        """Implement `Runtime.undeploy_statement`."""
        self._turn.check()
        deployment = self._deployment(deployment_id)
        others = {*self._registry.statements} - {s.name for s in deployment.statements}
        removed_and_rest = split_off_statement(
            deployment, name, catalog_without(self._registry.catalog, [deployment]), self._config, others
        )
        if removed_and_rest is None or deployments_using(self.deployments, removed_and_rest[0].plan.provides):
            return False
        self._in_full([partial(self._remove, *removed_and_rest)])
        return True

    def _remove(self, deployment: Deployment, rest: Deployment | None = None) -> None:
        self._touch(deployment)
        for statement in reversed(deployment.statements):
            self._registry.statements.get(statement.name, statement).stop()
            self._registry.remove(statement.name)
        for name in deployment.contexts:
            self._registry.contexts.pop(name, None)
        for name in deployment.event_types:
            self._registry.stores.pop(name, None)
        self._registry.catalog = catalog_without(self._registry.catalog, [deployment])
        if deployment.variables:
            variables = self._registry.variables
            self._registry.variables = {name: variables[name] for name in self._registry.catalog.variables}
        if rest is None:
            self.deployments.pop(deployment.id, None)
        else:
            self.deployments[rest.id] = rest
        self._settle(deployment)

    def _in_full(self, steps: Sequence[Callable[[], object]]) -> None:
        with self._turn:
            interruption = run_all_steps(steps)
        if interruption is not None:
            raise interruption

    def _touch(self, deployment: Deployment) -> None:
        for name in (deployment.id, *deployment.contexts, *(s.name for s in deployment.statements)):
            self.touched.pop(name, None)
            self.touched[name] = None  # the latest last

    def _settle(self, deployment: Deployment) -> None:
        indexed = {s.created_index.store for s in deployment.plan.statements if s.created_index is not None}
        stores = self._registry.stores
        for name in indexed.union(deployment.event_types) & stores.keys():
            apply_declared_indexes(stores[name], self._registry.catalog.indexes)
        self._changed(deployment.statements)

    def _deployment(self, id_: str) -> Deployment:
        return lookup_name("deployment", id_, self.deployments)
