"""A checkout takes what another one has computed of the same sources, and nothing else."""

from pathlib import Path

import pytest

from actors.service.jit_cache import stamp
from deploy.toolchain import build_cache

KERNEL = "pipeline/rows/__pycache__/cells.skip-7.py311.nbi"
TYPES = ".mypy_cache/3.11/pipeline/rows/cells.meta.json"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "builds"


def checkout(folder: Path, source: str, test: str = "", **made: str) -> Path:
    """A checkout with a module and its test, and with files that tools have made."""
    texts = {"pipeline/rows/cells.py": source, "tests/rows/test_cells.py": test, **made}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_another_checkout_of_the_same_sources_takes_both(tmp_path: Path) -> None:
    build_cache.keep(checkout(tmp_path / "one", "a = 1", **{KERNEL: "code", TYPES: "known"}))
    other = checkout(tmp_path / "other", "a = 1")
    assert build_cache.take(other) == ["kernels", "types"]
    assert [(other / name).read_text() for name in (KERNEL, TYPES)] == ["code", "known"]


def test_machine_code_is_of_the_product_alone_and_types_are_of_all(tmp_path: Path, cache: Path) -> None:
    made = {KERNEL: "code", TYPES: "known"}
    build_cache.keep(checkout(tmp_path / "one", "a = 1", **made))
    build_cache.keep(checkout(tmp_path / "with another test", "a = 1", "b = 2", **made))
    assert [len([*cache.glob(f"{kind}-*")]) for kind in ("kernels", "types")] == [1, 2]
    assert build_cache.take(checkout(tmp_path / "with another kernel", "a = 2")) == ["types"]


def test_of_the_newest_other_sources_the_machine_code_that_fits_is_taken(tmp_path: Path) -> None:
    one = checkout(tmp_path / "one", "a = 1", **{"pipeline/rows/images.py": "b = 1", TYPES: "known"})
    compiled = [one / "pipeline/rows/__pycache__" / f"{module}.f-1.py311" for module in ("cells", "images")]
    for path in compiled:
        path.parent.mkdir(exist_ok=True)
        made_of = stamp(one / "pipeline/rows" / f"{path.name.partition('.')[0]}.py")
        path.with_name(f"{path.name}.nbi").write_bytes(b"begins" + made_of + b"ends")
        path.with_name(f"{path.name}.1.nbc").write_text("code")
    build_cache.keep(one)
    other = checkout(tmp_path / "other", "a = 2", **{"pipeline/rows/images.py": "b = 1"})
    assert build_cache.take(other) == ["kernels", "types"]
    taken = {path.name for path in (other / "pipeline/rows/__pycache__").iterdir()}
    assert taken == {"images.f-1.py311.nbi", "images.f-1.py311.1.nbc"}
    assert (other / TYPES).read_text() == "known"


def test_what_a_checkout_has_stays(tmp_path: Path) -> None:
    build_cache.keep(checkout(tmp_path / "one", "a = 1", **{KERNEL: "code"}))
    other = checkout(tmp_path / "other", "a = 1", **{KERNEL: "its own"})
    assert build_cache.take(other) == []
    assert (other / KERNEL).read_text() == "its own"


def test_some_sources_stay_and_not_all_there_ever_were(tmp_path: Path, cache: Path) -> None:
    for n in range(9):
        build_cache.keep(checkout(tmp_path / str(n), f"a = {n}", **{KERNEL: str(n)}))
    assert len(list(cache.iterdir())) == 4
    assert build_cache.take(checkout(tmp_path / "last", "a = 8")) == ["kernels"]
