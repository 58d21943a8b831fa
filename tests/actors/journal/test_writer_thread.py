"""A journal on a full filesystem: nothing is lost, whichever process dies, and it continues when there's room.

The filesystem is a real one, of a few MiB, in a namespace of its own where an ordinary user may mount it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def test_a_full_filesystem_is_waited_for_and_survives_a_kill(tmp_path: Path) -> None:
    mounting = ("mount", "-t", "tmpfs", "tmpfs", str(tmp_path))
    if subprocess.run([*_NAMESPACE, *mounting], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a filesystem of his own")
    ended = subprocess.run(
        [*_NAMESPACE, sys.executable, "-m", "tests.actors.full_disk", tmp_path],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
