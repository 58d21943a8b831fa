"""A configuration that is right, of a source that isn't there."""

from pathlib import Path

import pytest

from tests.actors.service.command_line import GOOD


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(GOOD)
    return path
