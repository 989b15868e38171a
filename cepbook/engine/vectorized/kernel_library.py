"""The compiled kernels, if numba is installed. They are loaded in the background: until then rows are processed one by
one, with the same results.
"""

from __future__ import annotations

import importlib.util
import threading
from types import ModuleType

LEAST = 256  # events of a batch that is worth the fixed cost of arrays
WORTH_LOADING = 50_000  # events in batches that kernels could run, after which they are loaded
_lock = threading.Lock()
_events = 0
_loader: threading.Thread | None = None
_kernels: ModuleType | None = None
_failure: str | None = None


def kernels(events: int = 0, *, wait: bool = False) -> ModuleType | None:
    """Return the module of kernels for a batch of `events`; None while it is not loaded.

    Loading begins once batches of `WORTH_LOADING` events were asked for. With `wait` it begins now, and the call
    returns once the module is loaded, or cannot be.
    """
    global _loader, _events
    if _kernels is None and _failure is None:
        _events += events
        if not wait and _events < WORTH_LOADING:
            return None
        with _lock:
            if _loader is None:
                _loader = threading.Thread(target=_load, name="cepbook-kernels", daemon=True)
                _loader.start()
        if wait:
            _loader.join()
    return _kernels


def missing_reason() -> str | None:
    """Return why there are no kernels, for people; None if there are, or will be once they are loaded."""
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed (pip install 'cepbook[fast]')"
    return _failure


def _load() -> None:
    global _kernels, _failure
    try:
        from cepbook.engine.vectorized import kernels as loaded
    except Exception as failure:  # noqa: BLE001 - numba is missing, or cannot compile on this machine
        _failure = f"the kernels cannot be compiled: {failure}"
    else:
        _kernels = loaded
