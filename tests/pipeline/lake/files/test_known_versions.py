"""What may write the lake. Starts refuse the rest: tests/integration/lake, test_spark_sink and test_delta_connect."""

import pytest

from pipeline.errors import Definite
from pipeline.lake.files.known_versions import KNOWN_PAIRS, check_pair


def test_a_known_pair_is_taken_with_any_patch_of_its_spark() -> None:
    for pair in KNOWN_PAIRS:
        assert pair.reason
        for patch in ("0", "17"):
            check_pair("the server", f"{pair.spark}.{patch}", pair.delta, "")


@pytest.mark.parametrize(
    ("spark", "delta"), [("4.2.0", "4.4.1"), ("4.20.0", "4.4.0"), ("3.5.7", "4.4.0"), ("4", "4.4.0")]
)
def test_any_other_pair_is_refused_with_what_is_there_what_is_known_and_what_to_do(
    spark: str, delta: str
) -> None:
    with pytest.raises(Definite) as raised:
        check_pair("the server", spark, delta, "start another one")
    assert str(raised.value) == (
        f"the server has Spark {spark} with Delta {delta}, and Tidemark writes a lake only with Spark 4.2 with Delta "
        "4.4.0: start another one"
    )
