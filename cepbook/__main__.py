"""``python -m cepbook`` is ``cepbook``."""

from __future__ import annotations

import sys

from cepbook.cli import main

if __name__ == "__main__":
    sys.exit(main())
