"""One module per data window, named as in EPL: `WINDOW` says what it contributes, of derived-value windows `STATISTIC`.

The modules are found by the rows of `lang.windows`; a row without its module fails here.
"""

from collections.abc import Callable
from importlib import import_module

from cepbook.engine.rows.windows.derived import Statistic
from cepbook.engine.rows.windows.form import Window
from cepbook.engine.rows.windows.supplied import CLOCKED_WINDOW
from cepbook.engine.rows.windows.supplied import WINDOW as SUPPLIED_WINDOW
from cepbook.lang.windows import CLOCKED, SUPPLIED, WINDOWS


def _found(name: str, *kinds: str) -> dict[str, object]:
    rows = [row for row in WINDOWS.values() if row.kind in kinds and row.supported]
    return {row.name: getattr(import_module(f"{__name__}.{row.name}"), name) for row in rows}


WINDOW_FORMS: dict[str, Window] = _found("WINDOW", "window", "batch")  # type: ignore[assignment]
WINDOW_FORMS[SUPPLIED.name] = SUPPLIED_WINDOW
WINDOW_FORMS[CLOCKED.name] = CLOCKED_WINDOW
STATISTICS: dict[str, Callable[[], Statistic]] = _found("STATISTIC", "derived")  # type: ignore[assignment]
