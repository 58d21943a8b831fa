"""The commands that start the service, and that list what would keep it from starting."""

import asyncio
import contextlib
import os
import sys
from functools import partial

import click

from actors.runtime.logs import escape_in_lines
from actors.service.commands.conventions import EXIT_CODES, config_argument, fail, tell_error
from pipeline.config.settings import Settings
from pipeline.errors import TidemarkError


@click.command(epilog=EXIT_CODES)
@config_argument
def run(settings: Settings) -> None:
    """Capture and deliver until SIGTERM or SIGINT.

    It continues where the last run ended, for any reason. A signal to stop ends the reading, seals and
    delivers what was read, and exits. A second one exits at once, and the next run delivers the rest.
    """
    from actors.runtime import malloc, process_limits
    from actors.service import no_pandas

    process_limits.raise_descriptor_limit()
    process_limits.restrict_new_files(settings.umask)
    malloc.use_one_arena()
    no_pandas.block_pandas()
    if settings.spark.by_connect:
        no_pandas.stand_in_for_pandas()
    import uvloop

    from actors.runtime import logs
    from actors.runtime.recent_events import RecentEvents
    from actors.service import warm_up

    recent = RecentEvents()
    logs.configure(settings.name, recent=recent)
    warm_up.import_all()

    from actors.runtime.supervisor import ExitCode
    from actors.service import assembly

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    outcome = runner.run(assembly.serve(settings, recent))
    if outcome.code is ExitCode.CLEAN:
        runner.close()
        return
    # No thread that may still be at work is waited for.
    tell_error(outcome.message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(outcome.code)


@click.command()
@config_argument
def check(settings: Settings) -> None:
    """List all that would keep a run from working, then the tables that it would capture.

    It looks at the source, the grants, the folders, the port, Java, Spark's jars and Kafka, and whether the
    source still has the changes that follow on the journal.

    First comes the configuration that holds, with what the environment and the defaults say, and stars for secrets.
    """
    from actors.service import warm_up
    from pipeline.config.effective_settings import effective_toml
    from pipeline.source.finding import Severity

    click.echo(effective_toml(settings))
    with warm_up.log_compilation(partial(click.echo, err=True)):
        from actors.lake.spark import spark_session
        from actors.service import start_checks, table_listing

    findings = asyncio.run(start_checks.find_mistakes(settings))
    for finding in findings:
        click.echo(escape_in_lines(str(finding)))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    with contextlib.suppress(TidemarkError):  # which is among the findings
        last = start_checks.last_sealed(settings)
        begun = None if last is None else last.checkpoint
        for line in table_listing.listing(asyncio.run(table_listing.planned_tables(settings, begun))):
            click.echo(line)
    if errors:
        fail(f"{errors} to fix before it can run", 1)
    well = "all is well" if not findings else "it can run"
    click.echo(f"{well}, with {spark_session.check_spark(settings.spark)}")
