"""What `pipeline.source.prerequisites` judges: the source's settings, and what of capture the user may not do there.

The latter is found by trying, since rights can come by roles and by wildcards. The server opens a table for that. So no
table is tried where the account itself has the right for the whole database. Of the others many are tried by one
statement. Where that is refused, each of them is tried by one of its own.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.source.connection import Source
from actors.source.errors import Locked, RightLacked
from pipeline.errors import Definite
from pipeline.schema.table_schema import TableId
from pipeline.source import information_schema
from pipeline.source.information_schema import TableDescription
from pipeline.source.prerequisites import VARIABLES, Privilege, ServerFacts
from pipeline.source.statement import Statement, quoted_table

TABLES_ASKED_AT_ONCE: Final = 50

_Denied = dict[Privilege | TableId, str]


async def collect_facts(
    source: Source,
    tables: Sequence[TableId],
    described: Mapping[TableId, TableDescription],
    locks: bool = False,
) -> ServerFacts:
    """The facts about these tables and the server.

    `described`: what the source says of those whose columns the user may see. `locks`: whether capture may have to lock
    the server.
    """
    denied: _Denied = {}
    variables = await source.variables(VARIABLES)
    log_status = await _try(source, Privilege.CLIENT, source.log_status, denied)
    replica_status = await _try(source, Privilege.CLIENT, f"SHOW {source.replica} STATUS", denied)
    await _try(source, Privilege.SLAVE, _replicas_statement(source), denied)
    if locks and (refusal := await _refused_lock(source)):
        denied[Privilege.RELOAD] = refusal
    [(user,)] = await source.ask(Statement("SELECT CURRENT_USER()"))
    partial = variables.get("partial_revokes") == "ON"
    granted = information_schema.selectable_databases(
        await source.ask(information_schema.selectable(user)), partial=partial
    )
    tried = [] if granted is None else [table for table in tables if table.database not in granted]
    async with source.waiting_briefly():
        for begin in range(0, len(tried), TABLES_ASKED_AT_ONCE):
            denied |= await _refused_tables(source, tried[begin : begin + TABLES_ASKED_AT_ONCE])
    keys, looked_at = await source.cascading(), frozenset(tables)
    return ServerFacts(
        version=source.version_text,
        variables=variables,
        replica=bool(replica_status),
        log_filters=tuple(text for text in log_status[0][2:4] if text) if log_status else (),
        user=user,
        denied=denied,
        cascading=tuple(key for key in keys if key.child in looked_at),
        tables=looked_at,
        doubtful={table: found.doubtful for table, found in described.items() if found.doubtful},
    )


async def find_replicas(source: Source, server_id: int) -> list[str]:
    """Returns the hosts of the replicas that are connected with this server_id, as they call themselves.

    Raises Definite where the user may not ask for them.
    """
    rows = await source.ask(Statement(_replicas_statement(source)))
    return [
        f"{host or 'an unnamed host'} ({uuid_})" for number, host, _, _, uuid_ in rows if number == server_id
    ]


def _replicas_statement(source: Source) -> str:
    return "SHOW REPLICAS" if source.replica == "REPLICA" else "SHOW SLAVE HOSTS"


async def _try(source: Source, right: Privilege, sql: str, denied: _Denied) -> list[tuple[Any, ...]]:
    try:
        return await source.ask(Statement(sql))
    except Definite as refusal:
        denied[right] = str(refusal)
        return []


async def _refused_tables(source: Source, tables: Sequence[TableId]) -> _Denied:
    """Returns the tables of which the user may not SELECT all columns.

    If a table can't be read for another reason, only its own snapshot fails. An example is a table that a session has
    locked for writing.
    """
    selects = {table: f"SELECT * FROM {quoted_table(table)} LIMIT 0" for table in tables}  # noqa: S608 - quoted names
    together = " UNION ALL ".join(f"SELECT 0 FROM ({select}) t" for select in selects.values())  # noqa: S608 - as above
    try:
        await source.ask(Statement(together))
    except (Definite, Locked):
        each = {table: await _refusal(source, select) for table, select in selects.items()}
        return {table: refusal for table, refusal in each.items() if refusal is not None}
    return {}


async def _refused_lock(source: Source) -> str | None:
    """Why the user may not lock the server, if so. A table is named that can't be there: so nothing is locked."""
    refusal = await _refusal(source, f"FLUSH TABLES `{uuid.uuid4()}`.`none` WITH READ LOCK")
    return refusal if refusal is not None and Privilege.RELOAD in refusal else None


async def _refusal(source: Source, sql: str) -> str | None:
    """Why the user may not do this; None if that's not what is wrong."""
    try:
        await source.ask(Statement(sql))
    except RightLacked as refusal:
        return str(refusal)
    except (Definite, Locked):
        return None
    return None
