"""Where capture begins or continues, and what the log of events says of that."""

import structlog

from actors.runtime import measuring
from actors.source.preflight import Preflight, stored_schemas
from actors.source.unmatched_tables import idle_patterns, key_findings, protection_findings, type_findings
from pipeline.config.settings import Settings
from pipeline.coordinator import resume
from pipeline.coordinator.snapshots import recapture
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import Entry
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()


def choose_beginning(last: Entry | None, found: Preflight, settings: Settings) -> Checkpoint:
    """Returns where capture begins or continues. Raises LogPurged or ChangeLeftOut."""
    captured = {t: schema for t, schema in found.known.schemas.items() if settings.tables.match(t)}
    unsettled = found.known.unsettled & captured.keys()
    known = KnownSchemas(captured, found.known.at, unsettled=unsettled, end=found.known.end)
    if last is not None:
        digests = {table: each.digest for table, each in last.protected.items()}
        before = recapture.recapture_reprotected(last.checkpoint, digests, settings.protection)
        mode = settings.snapshot.mode
        checkpoint = resume.resume_checkpoint(before, known, found.purged, mode, found.unnamed)
        _log_beginning(before, checkpoint, found.unnamed)
    elif (after := settings.source.begin_after) is not None:
        checkpoint = resume.continued_checkpoint(GtidSet.parse(after), known, found.purged)
    else:
        checkpoint = resume.first_checkpoint(known)
    return resume.checkpoint_at_server(checkpoint, found.server, known, found.log_end)


@measuring.contain_errors
def log_idle_rules(found: Preflight, settings: Settings) -> None:
    """Logs the rules for columns that are about none: a mistyped one protects nothing, or changes no type. Then those
    that take from keys of messages what tells rows apart."""
    schemas = stored_schemas(settings, found.known.schemas.values())
    for finding in type_findings(settings.lake_types, schemas):
        log.warning("a rule changes no type", reason=f"{finding.wrong}; {finding.remedy}")
    known = found.known.schemas.keys() | found.known.refused.keys()
    tables = list(filter(settings.tables.match, known))
    if tables and (idle := idle_patterns(settings.tables.patterns, tables)):
        log.warning("patterns match no table", patterns=list(idle))
    for finding in protection_findings(settings.protection, tables):
        log.warning("a rule protects nothing", reason=f"{finding.wrong}; {finding.remedy}")
    for finding in key_findings(settings, tables):
        log.warning("a message key does not tell rows apart", reason=f"{finding.wrong}; {finding.remedy}")


@measuring.contain_errors
def _log_beginning(before: Checkpoint, now: Checkpoint, unnamed: str | None) -> None:
    """Logs how the start differs from continuing."""
    if unnamed is not None:
        log.warning("the log leaves out a change without a GTID", behind=str(before.position), reason=unnamed)
    elif now.position != before.position:
        log.warning("the binlog was purged", behind=str(before.position), now=str(now.position))
    for table, id_ in before.recapturing.items():
        if now.stopped.get(table) is None:
            log.info("the table is recaptured", table=str(table), id=id_)
