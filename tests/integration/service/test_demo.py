"""The demo itself, small: from an empty folder to the verdict, without leftovers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.toolchain.parts import Parts
from tests.servers.spark import quick_java


# `tidemark verify` has tests of its own. On busy cores it waits for merges that the demo's writer makes long.
@pytest.mark.parametrize(
    ("more", "verified"),
    [
        pytest.param([], r"shop\.customers", marks=pytest.mark.full, id="plain"),
        pytest.param(["--kafka"], r"shop\.customers", marks=pytest.mark.full, id="verified"),
        pytest.param(["--kafka"], "", id="kafka"),
    ],
)
def test_a_small_demo_ends_with_everything_equal(
    tmp_path: Path, parts: Parts, more: list[str], verified: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "deploy.demo",
        "--rows",
        "5000",
        "--watch",
        "3",
        "--verify",
        verified,
        "--folder",
        str(tmp_path),
        *more,
    ]
    quickly = {
        **os.environ,
        "JDK_JAVA_OPTIONS": quick_java(parts),
        # The lake takes more changes with each batch, and fewer batches.
        "TIDEMARK__JOURNAL__SEAL_AFTER_MS": "1000",
    }
    done = subprocess.run(
        command, env=quickly, capture_output=True, text=True, check=False, timeout=1000 if verified else 500
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for compared in (
        "rows of shop.orders",
        "changes of shop.customers",
        "keys of the mirror of shop.order_items",
    ):
        assert compared in done.stdout
    assert "DIFFERENCES" not in done.stdout
    for told in ("shop.customers: equal, ", "shop.customers: different, ", "; repaired: equal, "):
        assert (told in done.stdout) is bool(verified)
    assert (tmp_path / "lake" / "shop" / "orders" / "mirror" / "_delta_log").is_dir()
    assert not (tmp_path / "mysql").exists()
    topics = [f"topic demo.shop.{table}, 3 partitions: " for table in ("orders", "order_items", "customers")]
    assert all((topic in done.stdout) is bool(more) for topic in topics)


def test_a_wrong_argument_is_told_in_one_line() -> None:
    command = [sys.executable, "-m", "deploy.demo", "--rows", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--rows must be at least 1, not 0" in done.stderr
