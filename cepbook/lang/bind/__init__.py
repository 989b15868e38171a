"""The binder turns a syntax tree into a typed plan, or reports every problem of the module.

`module_binder.bind` is the entry. See `README.md` in this folder.
"""

from cepbook.lang.bind.module_binder import bind
from cepbook.lang.bind.scope import Options

__all__ = ["Options", "bind"]
