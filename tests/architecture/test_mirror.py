"""The tests mirror the sources: each module that does anything has a test of its own name, or says whose it is."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for folder in ("pipeline", "actors") for path in (ROOT / folder).rglob("*.py"))


# Parts of one thing that is tested as a whole, by the test that would fail if they were broken.
_EVENTS, _ROWS = "pipeline/binlog/events/test_event.py", "pipeline/binlog/rows/test_row_events.py"
_JSON, _CONNECT = "pipeline/binlog/rows/json/test_document.py", "integration/lake/test_delta_connect.py"
_DIFFS = "pipeline/binlog/rows/json/test_partial_update.py"
TESTED_BY = {
    "pipeline/types/cursor.py": _EVENTS,
    "pipeline/binlog/events/gtid_event.py": _EVENTS,
    "pipeline/binlog/events/query_event.py": _EVENTS,
    "pipeline/binlog/events/table_map_event.py": _EVENTS,
    "pipeline/binlog/rows/cells.py": _ROWS,
    "pipeline/binlog/rows/columns.py": _ROWS,
    "pipeline/binlog/rows/stored_values.py": _ROWS,
    "pipeline/binlog/rows/temporal.py": _ROWS,
    "pipeline/binlog/rows/json/damage.py": _JSON,
    "pipeline/binlog/rows/json/diff_kernels.py": _DIFFS,
    "pipeline/binlog/rows/json/document_kernels.py": _JSON,
    "pipeline/binlog/rows/json/document_tree.py": _DIFFS,
    "pipeline/binlog/rows/json/doubles.py": _JSON,
    "pipeline/binlog/rows/json/opaque_values.py": _JSON,
    "pipeline/binlog/rows/json/path_legs.py": _DIFFS,
    "pipeline/binlog/rows/json/text_kernels.py": _JSON,
    "pipeline/config/debezium/conversion.py": "pipeline/config/debezium/test_connector.py",
    "pipeline/config/secret.py": "pipeline/config/test_effective_settings.py",
    "pipeline/kafka/avro/avro_kernels.py": "pipeline/kafka/avro/test_avro_values.py",
    "pipeline/kafka/debezium/connect_values.py": "pipeline/kafka/debezium/test_json_values.py",
    "pipeline/kafka/debezium/json_format.py": "pipeline/kafka/debezium/test_envelope.py",
    "pipeline/kafka/debezium/message_format.py": "pipeline/kafka/debezium/test_heartbeat.py",
    "pipeline/kafka/debezium/source_block.py": "pipeline/kafka/debezium/test_envelope.py",
    "pipeline/kafka/state.py": "pipeline/kafka/test_step.py",
    "pipeline/coordinator/consistent_state.py": "pipeline/coordinator/halted/test_consistent_schedule.py",
    "pipeline/coordinator/handle_transactions.py": "pipeline/coordinator/test_step.py",
    "pipeline/journal/applied/progress.py": "pipeline/journal/applied/test_waiters.py",
    "pipeline/journal/change_rows.py": "pipeline/journal/test_segment.py",
    "pipeline/journal/entry.py": "pipeline/journal/test_segment.py",
    "pipeline/lake/background/state.py": "pipeline/lake/background/test_recording.py",
    "pipeline/lake/background/work.py": "pipeline/lake/background/test_turns.py",
    "pipeline/lake/batch.py": "pipeline/lake/test_delivery.py",
    "pipeline/lake/tables/properties.py": "pipeline/lake/tables/test_statements.py",
    "pipeline/source/finding.py": "pipeline/source/test_prerequisites.py",
    "pipeline/source/result_columns.py": "pipeline/source/test_result_set.py",
    "pipeline/types/text/collations.py": "integration/types/test_charset_tables.py",
    "pipeline/types/field_types.py": "pipeline/schema/test_table_map.py",
    "pipeline/types/value_kernels.py": _ROWS,
    "actors/http/changes/client.py": "actors/http/changes/test_arrow_stream.py",
    "actors/http/changes/journal_tap.py": "actors/http/changes/test_readers.py",
    "actors/http/changes/segment_changes.py": "actors/http/changes/test_readers.py",
    "actors/http/json_schemas.py": "actors/http/test_routes.py",
    "actors/http/error_answers.py": "actors/http/changes/test_readers.py",
    "actors/kafka/client.py": "actors/kafka/test_producer.py",
    "actors/kafka/position.py": "actors/kafka/test_producer.py",
    "actors/kafka/topics.py": "actors/kafka/test_producer.py",
    "actors/lake/background_work.py": "integration/lake/test_maintenance.py",
    "actors/lake/delta/changelog.py": "integration/lake/test_verification.py",
    "actors/lake/delta/delta_table.py": "integration/lake/test_lake.py",
    "actors/lake/delta/lake_table.py": "integration/lake/test_lake.py",
    "actors/lake/delta/statements.py": "integration/lake/test_lake.py",
    "actors/lake/delta/table_opener.py": _CONNECT,
    "actors/lake/generations.py": "integration/lake/test_lake.py",
    "actors/lake/table_commits.py": "integration/lake/test_lake_schemas.py",
    "actors/lake/spark/spark_connect.py": _CONNECT,
    "actors/lake/spark/spark_session.py": "integration/lake/test_spark_cluster.py",
    "actors/lake/verification/comparison.py": "integration/lake/test_verification.py",
    "actors/lake/verification/held_files.py": "integration/lake/test_verification.py",
    "actors/lake/verification/lake_verification.py": "integration/lake/test_verification.py",
    "actors/lake/verification/results.py": "integration/lake/test_verification.py",
    "actors/service/capture_start.py": "integration/service/test_resume.py",
    "actors/service/installation/java_truststore.py": "actors/service/installation/test_pinned_jars.py",
    "actors/service/installation/s3_jars.py": "actors/service/installation/test_pinned_jars.py",
    "actors/service/lake/lake_status.py": "integration/lake/test_live_view_text.py",
    "actors/service/commands/terminal_status.py": "actors/status/test_status_board.py",
    "actors/signals/channel.py": "actors/test_signal_listener.py",
    "actors/snapshot/connection_pool.py": "integration/source/test_connection.py",
    "actors/snapshot/scan_transaction.py": "integration/service/test_table_scans.py",
    "actors/snapshot/consistent_reads.py": "integration/service/test_consistent.py",
    "actors/snapshot/snapshot_metrics.py": "actors/test_watermark_coordinator.py",
    "actors/source/gtid_history.py": "integration/service/test_without_gtids.py",
    "actors/source/preflight.py": "integration/service/test_refusals.py",
    "actors/source/witnesses.py": "integration/source/test_another_history.py",
}


def own_test(place: Path) -> Path:
    return Path("tests") / place.parent / f"test_{place.name}"


def has_its_own(place: Path) -> bool:
    integration = (ROOT / "tests" / "integration").rglob(f"test_{place.name}")
    return (ROOT / own_test(place)).exists() or any(integration)


def does_anything(path: Path) -> bool:
    """Whether there's a function in it: a module of plain types says all there is to say."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_its_test(path: Path) -> None:
    place = path.relative_to(ROOT)
    assert has_its_own(place) or not does_anything(path) or str(place) in TESTED_BY, (
        f"write {own_test(place)}"
    )


@pytest.mark.parametrize("module", TESTED_BY)
def test_a_module_is_tested_where_it_says(module: str) -> None:
    place = Path(module)
    assert (ROOT / place).exists() and (ROOT / "tests" / TESTED_BY[module]).exists()
    assert not has_its_own(place), "it has a test of its own now: leave it out"


@pytest.mark.parametrize("folder", ["pipeline", "actors"])
def test_a_test_has_its_module(folder: str) -> None:
    for test in (ROOT / "tests" / folder).rglob("test_*.py"):
        place = test.relative_to(ROOT / "tests")
        module = ROOT / place.parent / place.name.removeprefix("test_")
        assert module.exists(), f"{place} tests nothing of its own name"
