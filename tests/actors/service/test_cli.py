"""The command line as a whole: help, exit codes, how fast it starts, and what a shell completes."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.runtime.supervisor import ExitCode
from actors.service.cli import main
from tests.actors.service.command_line import tidemark

ROOT = Path(__file__).parents[3]


def test_help_names_every_command_and_exit_code() -> None:
    told = tidemark("--help")
    assert told.exit_code == 0
    for command in main.commands:
        assert f"  {command} " in told.output
        assert tidemark(command, "--help").exit_code == 0
    for code in ExitCode:
        assert f"\n    {code.value}  " in told.output


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tidemark("--version").output == f"tidemark, version {project['version']}\n"


def test_a_command_starts_without_the_compiler() -> None:
    """Each use of TAB starts one, and the compiled code takes longer to load than all else."""
    program = "import sys; import actors.service.cli; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_bash_completes_a_command_as_the_document_says(tmp_path: Path) -> None:
    (tmp_path / "tidemark").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m actors "$@"\n')
    (tmp_path / "tidemark").chmod(0o755)
    line = 'eval "$(_TIDEMARK_COMPLETE=bash_source tidemark)"'
    assert line in (ROOT / "docs" / "operations.md").read_text()
    typed = "COMP_WORDS=(tidemark si); COMP_CWORD=1; _tidemark_completion tidemark; echo ${COMPREPLY[*]}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        ["bash", "-c", f"{line}\n{typed}"], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "signal\n"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("signal shop.toml re", "plain,resume\nplain,recapture\n"),
        ("check sho", "file,sho\n"),
        ("init --password", "plain,--password-file\n"),
        ("setup --r", "plain,--repository\n"),
    ],
)
def test_a_shell_completes_options_choices_and_files(
    typed: str, completed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").touch()  # which `init` would refuse to overwrite
    words = typed.split()
    environment = {
        "_TIDEMARK_COMPLETE": "bash_complete",
        "COMP_WORDS": f"tidemark {typed}",
        "COMP_CWORD": str(len(words)),
    }
    assert CliRunner().invoke(main, prog_name="tidemark", env=environment).output == completed
