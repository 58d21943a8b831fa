"""The limits of a process of its own, which `tidemark run` is."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("soft", "hard"), [(50, 300), (300, 300)])
def test_a_process_may_open_as_many_files_as_its_hard_limit_permits(soft: int, hard: int) -> None:
    program = (
        "import resource; from actors.runtime.process_limits import raise_descriptor_limit as raised;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        "print(raised(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(hard)] * 3


def test_what_a_process_and_its_children_make_is_its_users_alone(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys; from actors.runtime.process_limits import restrict_new_files;"
        "os.umask(0o022); os.chdir(sys.argv[1]); restrict_new_files('077');"
        "os.mkdir('folder'); open('file', 'w').close();"
        "subprocess.run(['touch', 'of_child'], check=True)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"folder": 0o700, "file": 0o600, "of_child": 0o600}
