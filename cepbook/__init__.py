"""cepbook: complex event processing in Jupyter. Continuous EPL queries over live and historic event streams.

In a notebook `%load_ext cepbook` gives the magics; in plain Python the same things are methods of `Workbench`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepbook.lazy_imports import exports_on_demand

if TYPE_CHECKING:
    from cepbook.engine.config import Config
    from cepbook.session import Workbench

__version__ = "0.1.0"
__all__ = ["Config", "Workbench", "load_ipython_extension", "unload_ipython_extension", "__version__"]
_ON_DEMAND = {"Config": "cepbook.engine.config", "Workbench": "cepbook.session"}  # name -> the module that has it


# The imports below wait until they are needed: pytest loads this package in every run for its plugin, Spark's workers
# load it for the engine, and neither wants pandas or IPython for that.
__getattr__, __dir__ = exports_on_demand(__name__, _ON_DEMAND, __all__)


def load_ipython_extension(ipython: Any) -> None:
    """Register the magics and put a `Workbench` into the user's namespace as `cep` (`%load_ext cepbook`)."""
    from cepbook import magics

    magics.load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take back what `load_ipython_extension` changed (`%unload_ext cepbook`)."""
    from cepbook import magics

    magics.unload_ipython_extension(ipython)
