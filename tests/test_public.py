"""What users import: all of it is offered by tab completion, and says what it does."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import cepbook
import cepbook.session
import cepbook.spark
import cepbook.widgets
from tests import documents

PACKAGES = [cepbook, cepbook.session, cepbook.spark, cepbook.widgets]
# What has no list of its names: exceptions, sources of live events, charts
MODULES = [*map(importlib.import_module, ("cepbook.errors", "cepbook.session.inlets", "cepbook.widgets.charts"))]


def public(module: ModuleType) -> dict[str, Any]:
    """The classes and functions that a module has for users, by name."""
    names = getattr(module, "__all__", None) or [n for n, o in vars(module).items() if _of(o, module) and n[0] != "_"]
    found = {name: getattr(module, name) for name in names}
    return {name: each for name, each in found.items() if inspect.isclass(each) or inspect.isfunction(each)}


def _of(each: object, module: ModuleType) -> bool:
    return getattr(each, "__module__", None) == module.__name__


def undocumented(each: Any, name: str) -> Iterator[str]:
    """What lacks a docstring: `each`, and of a class the public methods and properties of our own."""
    if not inspect.getdoc(each):
        yield name
    if inspect.isclass(each):
        for base in each.__mro__:
            if base.__module__.startswith("cepbook."):
                members = {n: m for n, m in vars(base).items() if inspect.isfunction(m) or isinstance(m, property)}
                yield from (f"{name}.{n}" for n, m in members.items() if n[0] != "_" and not inspect.getdoc(m))


# Of widgets the protocol `ViewSource` describes what sources have.
@pytest.mark.parametrize("module", [*PACKAGES[:-1], *MODULES], ids=lambda module: module.__name__)
def test_all_that_is_public_says_what_it_does(module: ModuleType) -> None:
    found = public(module)
    assert found
    assert [lacking for name, each in found.items() for lacking in undocumented(each, name)] == []


@pytest.mark.parametrize("module", PACKAGES, ids=lambda module: module.__name__)
def test_all_that_is_public_is_offered(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))


def test_the_comparison_with_an_earlier_version_covers_them() -> None:
    public_api = documents.tool("public_api")
    assert {module.__name__ for module in [*PACKAGES, *MODULES]} <= set(public_api.PUBLIC)
    assert all(importlib.import_module(name) for name in public_api.PUBLIC)


def test_what_is_offered_is_not_loaded_for_that() -> None:
    code = "import cepbook, cepbook.spark, sys; dir(cepbook); dir(cepbook.spark); print({*sys.modules} & {'pandas'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
