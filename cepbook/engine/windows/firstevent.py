"""``firstevent``: the very first event; later ones are refused, as by ``firstlength(1)``."""

from __future__ import annotations

from cepbook.engine.windows.firstlength import FirstLengthWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, creates

WINDOW = WindowCodegen(creates(FirstLengthWindow, lambda *_: "1"))
