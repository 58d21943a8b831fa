"""What the commands have in common: the argument CONFIG, the exit codes, and how a command fails."""

import sys
from pathlib import Path
from typing import Final, NoReturn

import click
from click.shell_completion import CompletionItem

from actors.runtime.logs import escape_in_lines
from actors.service.config_file import load
from pipeline.config.settings import Settings

EXIT_CODES: Final = """\b
Exit codes:
  0  done, or stopped cleanly
  1  gave up after too many failures, or a failure while stopping; a signal was rejected; a check found errors;
     what was waited for hasn't come in time
  2  an error that a retry can't fix: a mistake in the configuration, a missing grant, a purged binlog;
     the message says what to do
  3  an invariant of Tidemark was broken: it ended at once; please report the log
  4  a part hung and couldn't be cancelled
"""


def _configuration(path: str) -> Settings:
    return load(Path(path))


def _complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Has the shell complete the name of a file, which it doesn't do for an argument of a type of our own."""
    return [CompletionItem(incomplete, type="file")]


config_argument = click.argument(
    "settings", metavar="CONFIG", type=_configuration, shell_complete=_complete_file
)


def fail(message: str, code: int) -> NoReturn:
    """Ends the program with this message and exit code."""
    tell_error(message)
    sys.exit(code)


def tell_error(message: str) -> None:
    """Prints what has failed, which may name tables of the source."""
    click.echo(f"tidemark: {escape_in_lines(message)}", err=True)


def lake_path(settings: Settings) -> str:
    """Returns where the lake is; ends the program where there's none."""
    if settings.lake is None:
        fail("the configuration has no [lake]", 2)
    return settings.lake.path
