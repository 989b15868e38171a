"""``python -m cepbook.spark``, and what ``spark-submit`` is given."""

from __future__ import annotations

import sys

from cepbook.spark.job import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
