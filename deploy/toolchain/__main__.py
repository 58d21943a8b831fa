"""Command line: `python3 -m deploy.toolchain setup [--s3] [--tests] | paths`."""

import argparse
import sys

from deploy.toolchain.cache import ToolchainError
from deploy.toolchain.parts import Parts, locate, setup


def main() -> int:
    """Run one command; exit status 1 and one message where a part can't be had, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.toolchain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("setup", help="fetch what is missing into the cache")
    making.add_argument("--s3", action="store_true", help="and the jars for a lake in S3")
    making.add_argument(
        "--tests",
        action="store_true",
        help="and what tests need: the jars for a lake in S3, MySQL 5.6, Kafka, a schema registry, Debezium, "
        "Prometheus, Helm, Chromium, the classes of Spark and Kafka",
    )
    commands.add_parser("paths", help="print where the parts are, as shell assignments")
    asked = parser.parse_args()
    try:
        parts = setup(for_tests=asked.tests, with_s3=asked.s3) if asked.command == "setup" else locate()
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("toolchain: interrupted; another run continues from here", file=sys.stderr)
        return 130
    if asked.command == "paths":
        _print(parts)
    return 0


def _print(parts: Parts) -> None:
    print(f"PYTHON={parts.python}")
    print(f"JAVA_HOME={parts.java_home}")
    print(f"JARS={','.join(map(str, parts.jars))}")
    print(f"MYSQL_BIN={parts.mysql.bin}")
    if parts.s3 is not None:
        print(f"S3_JARS={parts.s3}")


if __name__ == "__main__":
    sys.exit(main())
