"""``python -m cepbook.spark``, and the program for ``spark-submit``."""

from __future__ import annotations

import sys

from cepbook.errors import UsageError
from cepbook.spark.spark_session import require_pyspark


def main() -> int:
    """Run a job (`cepbook.spark.job`), and return its exit code: 2 if pyspark is missing."""
    try:
        require_pyspark()
    except UsageError as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    from cepbook.spark import job

    return job.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
