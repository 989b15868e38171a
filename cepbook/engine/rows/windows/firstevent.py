"""``firstevent``: the very first event; later ones are refused, as by ``firstlength(1)``."""

from __future__ import annotations

from cepbook.engine.rows.windows.firstlength import FirstLength
from cepbook.engine.rows.windows.form import Window

WINDOW = Window(lambda code, spec, at: f"{code.source.bind('_FirstLength', FirstLength)}(1)")
