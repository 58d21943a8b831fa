"""The command `tidemark`.

Imports that take long (Spark, numba) are made by the commands that need them, so that the others answer at
once.
"""

from typing import Any

import click

from actors.service.commands import installation, operation, readers, start
from actors.service.commands.conventions import EXIT_CODES, fail
from pipeline.errors import TidemarkError, Transient

VERSION = "0.1.0"


class Tidemark(click.Group):
    """Turns our errors into one message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except TidemarkError as error:
            fail(str(error), 1 if isinstance(error, Transient) else 2)


@click.group(cls=Tidemark, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tidemark")
def main() -> None:
    """Captures the changes of a MySQL server, only reading it, and lands them exactly once.

    Delta tables and topics of Kafka get them.

    CONFIG is a TOML file. The environment can set any of its keys as TIDEMARK__SECTION__KEY.

    \b
    tidemark setup                       fetch Delta's jars, once after pip install
    tidemark init -o shop.toml           look at a source, and write a configuration for it
    tidemark check shop.toml             check the configuration and the source
    tidemark run shop.toml               capture and deliver until SIGTERM
    tidemark signal shop.toml execute    snapshot the tables while changes stream
    tidemark status shop.toml --watch    show the progress
    tidemark tables shop.toml            list the captured tables
    tidemark sql shop.toml shop.orders   print the query that reads a table as of now
    tidemark views shop.toml             print the statements that make views of all tables
    tidemark verify shop.toml            compare the lake with the source
    tidemark wait shop.toml              wait until readers see what the source has by now
    tidemark tail shop.toml              follow the changes, like tail -f
    tidemark import-debezium connector.json > shop.toml
    """


for _command in (
    installation.setup,
    installation.init,
    installation.import_debezium,
    start.check,
    start.run,
    operation.send_signal,
    operation.status,
    operation.tables,
    operation.verify,
    operation.forget_consumer,
    readers.sql,
    readers.views,
    readers.wait,
    readers.tail,
):
    main.add_command(_command)
