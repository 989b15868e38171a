"""A program for `test_connect`: a Spark Connect server on a free port, which it says; it ends when its input does."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.artifact.isolation.enabled": "true",  # these two as of the server that pyspark itself starts
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}


def main() -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    sys.stdout.write(f"{getattr(service, 'MODULE$').localPort()}\n")
    sys.stdout.flush()
    sys.stdin.read()
    session.stop()


if __name__ == "__main__":
    main()
