"""What may happen in a history: each move is a few statements of one kind, with what they leave in the model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from tests.histories.statements import (
    KINDS,
    OTHERS,
    WIDER,
    Act,
    Column,
    Group,
    Kind,
    Sql,
    Step,
    Table,
    World,
    quoted,
    value,
)

Steps = Iterator[Step]

_TABLES: Final = ("t", "orders", "u", "items")
_ODD_TABLES: Final = (
    "Orders",
    "T",
    "straße",
    "strasse",
    "select",
    "名前",
    "a.b",
    "it's",
    "x`y",
    "_hidden",
    "..",
    "m",
)
_COLUMNS: Final = ("v", "w", "note", "total", "x", "y")
_ODD_COLUMNS: Final = (
    "m", "c", "M", "select", "名前", "a.b", "it's", 'q"q', "x`y", "row", "path", "key", "__m", "_metadata", "__op",
)  # fmt: skip
# Names that a query has for its tables, or that Spark adds when it reads.
_KNOWN: Final = (("m", "c"), ("m",), ("c",), ("C", "M"), ("_metadata",), ("_metadata", "m"))
# Days that are there, of the year 0 and after it.
_EARLY: Final = ("'0000-03-01'", "'0000-12-31'", "'0001-01-01'", "'2024-02-29'")
_ENGINES: Final = (" ENGINE=MyISAM", " ENGINE=MEMORY", " ENGINE=BLACKHOLE", " ENGINE=ARCHIVE", " ENGINE=CSV")
# In this mode a strict conversion pads.
_PADDING: Final = "STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH"
_MODES: Final = (
    "", "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES,NO_ZERO_DATE", "PAD_CHAR_TO_FULL_LENGTH",
    _PADDING, "ALLOW_INVALID_DATES", "NO_AUTO_VALUE_ON_ZERO",
)  # fmt: skip
_TRIES: Final = 20
_TIMESTAMP: Final = "TIMESTAMP"
# Two instants, in UTC, that have one local time in Central Europe, and one before and behind them.
_ONE_LOCAL_TIME: Final = (
    "'2024-10-27 00:30:00'", "'2024-10-27 01:30:00'", "'2024-10-26 23:30:00'", "'2024-10-27 02:30:00'",
)  # fmt: skip


def kind_of(world: World, *, key: bool = False) -> Kind:
    """A type, for a key's column if it's to be one."""
    some = world.some
    fitting = [kind for kind in KINDS if (kind.old or not world.old) and (kind.key or not key)]
    if not world.instants:
        fitting = [kind for kind in fitting if not kind.text.startswith(_TIMESTAMP)]
    if key and some.random() < 0.5:
        return fitting[0]
    # ENUM labels beyond U+FFFF and their like are few, so that they don't hide what else there is.
    chosen = some.choice(fitting)
    return some.choice(fitting) if "😀" in chosen.text and some.random() < 0.5 else chosen


def name_of_column(world: World, taken: set[str]) -> str:
    """A name that isn't taken."""
    for _ in range(_TRIES):
        odd = world.hostile and world.some.random() < 0.12
        name = world.some.choice(_ODD_COLUMNS if odd else _COLUMNS)
        if name.casefold() not in {each.casefold() for each in taken}:
            return name
    return f"n{world.number()}"


def new_table(world: World, name: str) -> Table:
    """A table of random columns."""
    some = world.some
    taken: set[str] = set()
    columns: list[Column] = []
    key: list[str] = []
    for _ in range(some.choice((1, 1, 1, 2))):
        kind = kind_of(world, key=True)
        column = name_of_column(world, taken) if some.random() < 0.3 else f"id{len(key) or ''}"
        taken.add(column)
        columns.append(Column(column, kind, nullable=False))
        key.append(column)
    for _ in range(some.randint(1, 4)):
        column = name_of_column(world, taken)
        taken.add(column)
        columns.append(Column(column, kind_of(world), nullable=some.random() < 0.8))
    if not world.old and some.random() < 0.25:
        columns.append(made(world, taken, columns))
    some.shuffle(columns)
    extra: tuple[str, ...] = ()
    chance = some.random()
    names = tuple(key)
    if chance < 0.05:  # a unique index in the key's place
        extra = (f"UNIQUE KEY uk ({', '.join(map(quoted, key))})",)
        names = ()
    elif chance < 0.08:  # none
        names = ()
    elif chance < 0.10 and len(key) > 1:  # two that are alike
        both = [", ".join(map(quoted, each)) for each in (key, key[::-1])]
        extra, names = tuple(f"UNIQUE KEY ({each})" for each in both), ()
    engine = some.choice(_ENGINES) if world.hostile and some.random() < 0.15 else ""
    return Table(name, tuple(columns), names, engine, extra=extra)


def made(world: World, taken: set[str], columns: list[Column]) -> Column:
    """A generated column; none is the text of a TIMESTAMP, which depends on the session that reads it."""
    some = world.some
    base = some.choice([column for column in columns if not column.made])
    how = {
        Group.TEXT: ("INT", f"({quoted(base.name)} = 'admin')"),
        Group.DAY: ("VARCHAR(60)", f"CONCAT({quoted(base.name)})"),
        Group.NUMBER: ("VARCHAR(60)", f"CONCAT({quoted(base.name)})"),
    }.get(base.kind.group, ("INT", f"(LENGTH({quoted(base.name)}))"))
    if base.kind.text.startswith(_TIMESTAMP):
        how = ("INT", f"({quoted(base.name)} IS NULL)")
    stored = some.choice((" VIRTUAL", " STORED", ""))
    kind = Kind(how[0], Group.OTHER, ())
    return Column(name_of_column(world, taken), kind, made=f" AS ({how[1]}){stored}")


def name_of_table(world: World) -> str:
    odd = world.hostile and world.some.random() < 0.25
    return world.some.choice(_ODD_TABLES if odd else _TABLES)


def some_table(world: World) -> Table | None:
    """One of the tables."""
    return world.some.choice(list(world.tables.values())) if world.tables else None


def create(world: World) -> Steps:
    """A table, with some rows."""
    table = new_table(world, name_of_table(world))
    absent = "IF NOT EXISTS " if world.some.random() < 0.2 else ""
    yield Sql(_commented(world.some, table.creation(absent)))
    if table.name not in world.tables:
        world.tables[table.name] = table
    if world.some.random() < 0.9:
        yield insert_into(world, world.tables[table.name], 12)


def _commented(some: Random, text: str) -> str:
    first, rest = text.split(" ", 1)
    ways = (
        f"/* DROP TABLE t */ {text}",
        f"{first} /*!50000 {rest} */",
        f"-- first\n{text}",
        f"{first} # '\n {rest}",
    )
    return some.choice(ways) if some.random() < 0.15 else text


def insert_into(world: World, table: Table, most: int = 4) -> Sql:
    """Rows, of which those with a key that's there are passed over or replaced."""
    some = world.some
    columns = table.given
    how = some.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE", "INSERT"))
    many = some.randint(1, most)
    rows = ", ".join(_keyed_row(world, columns) for _ in range(many))
    names = ", ".join(quoted(column.name) for column in columns)
    update = ""
    if how == "INSERT" and columns:
        name = quoted(some.choice(columns).name)
        update = f" ON DUPLICATE KEY UPDATE {name} = VALUES({name})"
    return Sql(f"{how} INTO {table.quoted} ({names}) VALUES {rows}{update}")


def _keyed_row(world: World, columns: list[Column]) -> str:
    """A row, mostly with a key of its own where that's a number."""
    literals = []
    for column in columns:
        literal = value(world.some, column)
        if column.name.startswith("id") and column.kind.text == "INT" and world.some.random() < 0.7:
            literal = str(world.number())
        literals.append(literal)
    return f"({', '.join(literals)})"


def change(world: World, table: Table) -> Sql:
    """A change of rows."""
    some = world.some
    columns = table.given
    one, other = quoted(some.choice(columns).name), some.choice(columns)
    limit = f" ORDER BY {one} LIMIT {some.randint(1, 4)}"
    match some.random():
        case x if x < 0.4 and columns:
            ignore = "IGNORE " if some.random() < 0.5 else ""
            return Sql(
                f"UPDATE {ignore}{table.quoted} SET {quoted(other.name)} = {value(some, other)}{limit}"
            )
        case x if x < 0.6:
            return Sql(f"DELETE FROM {table.quoted}{limit}")
        case x if x < 0.63:
            return Sql(f"DELETE FROM {table.quoted}")
        case _:
            return insert_into(world, table)


def write(world: World) -> Steps:
    """One change, or several."""
    for _ in range(world.some.randint(1, 3)):
        if table := some_table(world):
            yield change(world, table)


def transact(world: World) -> Steps:
    """A transaction of several changes, perhaps of several tables."""
    yield Sql("BEGIN")
    for _ in range(world.some.randint(1, 5)):
        if table := some_table(world):
            yield change(world, table)
    yield Sql(world.some.choice(("COMMIT", "COMMIT", "ROLLBACK")))


# ALTER TABLE


def alter(world: World) -> Steps:
    """An ALTER of one or several clauses, with changes of rows behind it."""
    table = some_table(world)
    if table is None:
        return
    clauses: list[str] = []
    for _ in range(world.some.choice((1, 1, 1, 2, 3))):
        clause, table = _clause(world, table)
        clauses += [clause] if clause else []
    if clauses:
        ignore = "IGNORE " if world.old and world.some.random() < 0.2 else ""
        yield Sql(_commented(world.some, f"ALTER {ignore}TABLE {table.quoted} {', '.join(clauses)}"))
        world.tables[table.name] = table
    if world.some.random() < 0.6:
        yield change(world, table)


def _clause(world: World, table: Table) -> tuple[str, Table]:
    some = world.some
    ways: list[Callable[[World, Table], tuple[str, Table]]] = [
        _add, _add, _drop, _modify, _modify, _modify, _rename_column, _convert, _same_name, _key, _other,
    ]  # fmt: skip
    return some.choice(ways)(world, table)


def _with(table: Table, old: Column, *new: Column) -> Table:
    columns = [each for column in table.columns for each in (new if column is old else (column,))]
    if not new:
        return replace(table, columns=tuple(columns), key=tuple(k for k in table.key if k != old.name))
    key = tuple(new[0].name if name == old.name else name for name in table.key)
    return replace(table, columns=tuple(columns), key=key)


def _add(world: World, table: Table) -> tuple[str, Table]:
    some = world.some
    taken = {column.name for column in table.columns}
    if not world.old and some.random() < 0.15:
        column = made(world, taken, list(table.columns))
        return f"ADD COLUMN {column.definition}", replace(table, columns=(*table.columns, column))
    column = Column(name_of_column(world, taken), kind_of(world), nullable=some.random() < 0.7)
    text = f"ADD COLUMN {column.definition}"
    if column.kind.key and some.random() < 0.5:
        text += f" DEFAULT {some.choice(column.kind.values)}"
    elif not world.old and some.random() < 0.1:
        column = Column(column.name, KINDS[11])
        text = f"ADD COLUMN {column.definition} DEFAULT (CONCAT('x', RAND()))"
    place = some.choice(("", "", " FIRST", f" AFTER {quoted(table.columns[0].name)}"))
    columns = (column, *table.columns) if place == " FIRST" else (*table.columns, column)
    invisible = " INVISIBLE" if not world.old and some.random() < 0.1 else ""
    return text + invisible + place, replace(table, columns=columns)


def _drop(world: World, table: Table) -> tuple[str, Table]:
    others = [column for column in table.columns if column.name not in table.key]
    if len(table.columns) < 3 or not others:
        return "", table
    column = world.some.choice(others)
    return f"DROP COLUMN {quoted(column.name)}", _with(table, column)


def _become(world: World, table: Table, column: Column) -> Column:
    some = world.some
    group = column.kind.group
    if (wider := WIDER.get(column.kind.text)) and some.random() < 0.4:
        return replace(column, kind=replace(column.kind, text=wider))
    texts = [kind for kind in KINDS if kind.group is group and (kind.old or not world.old)]
    kind = some.choice(texts)
    if some.random() < 0.4:
        kind = replace(column.kind, text=some.choice(OTHERS[group]))
    if kind.text.startswith(_TIMESTAMP) and any(
        f"CONCAT({quoted(column.name)})" in c.made for c in table.columns
    ):
        kind = column.kind
    return replace(
        column, kind=kind, nullable=column.nullable if some.random() < 0.8 else not column.nullable
    )


def _modify(world: World, table: Table) -> tuple[str, Table]:
    some = world.some
    column = some.choice(table.given)
    new = _become(world, table, column)
    if some.random() < 0.25:
        new = replace(new, name=name_of_column(world, {each.name for each in table.columns}))
        return f"CHANGE {quoted(column.name)} {new.definition}", _with(table, column, new)
    place = some.choice(("", "", "", " FIRST"))
    return f"MODIFY COLUMN {new.definition}{place}", _with(table, column, new)


def _rename_column(world: World, table: Table) -> tuple[str, Table]:
    if world.old:
        return _modify(world, table)
    some = world.some
    one = some.choice(table.given)
    if len(table.given) > 1 and some.random() < 0.25:  # two take each other's name
        other = some.choice([column for column in table.given if column is not one])
        swapped = _with(_with(table, one, replace(one, name="\0")), other, replace(other, name=one.name))
        [gone] = [column for column in swapped.columns if column.name == "\0"]
        named = f"RENAME COLUMN {quoted(one.name)} TO {quoted(other.name)}"
        back = f"RENAME COLUMN {quoted(other.name)} TO {quoted(one.name)}"
        return f"{named}, {back}", _with(swapped, gone, replace(one, name=other.name))
    name = name_of_column(world, {column.name for column in table.columns})
    if some.random() < 0.1:
        name = one.name.swapcase()
    return f"RENAME COLUMN {quoted(one.name)} TO {quoted(name)}", _with(table, one, replace(one, name=name))


def _convert(world: World, table: Table) -> tuple[str, Table]:
    to = world.some.choice(
        ("utf8mb4 COLLATE utf8mb4_bin", "utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_general_ci")
    )
    return f"CONVERT TO CHARACTER SET {to}", table


def _same_name(world: World, table: Table) -> tuple[str, Table]:
    others = [column for column in table.given if column.name not in table.key]
    if not others:
        return "", table
    column = world.some.choice(others)
    new = replace(column, kind=kind_of(world), nullable=True)
    return f"DROP COLUMN {quoted(column.name)}, ADD COLUMN {new.definition}", _with(table, column, new)


def _key(world: World, table: Table) -> tuple[str, Table]:
    some = world.some
    fitting = [column for column in table.given if column.kind.key]
    if not fitting:
        return "", table
    key = some.sample(fitting, k=min(len(fitting), some.choice((1, 1, 2))))
    names = ", ".join(quoted(column.name) for column in key)
    match some.random():
        case x if x < 0.4:
            drop = "DROP PRIMARY KEY, " if table.key else ""
            return f"{drop}ADD PRIMARY KEY ({names})", replace(table, key=tuple(each.name for each in key))
        case x if x < 0.5 and table.key:
            return "DROP PRIMARY KEY", replace(table, key=())
        case x if x < 0.8:
            return f"ADD UNIQUE KEY ({names})", table
        case _:
            return f"ADD INDEX ({names})", table


def _other(world: World, table: Table) -> tuple[str, Table]:
    some = world.some
    column = quoted(some.choice(table.columns).name)
    ways = [
        "AUTO_INCREMENT = 1000", "COMMENT = 'RENAME TO x'", "ENGINE=InnoDB", "FORCE", f"ORDER BY {column}",
        f"ALTER COLUMN {column} DROP DEFAULT", "ENGINE=MyISAM", "ENGINE=MEMORY", "DEFAULT CHARACTER SET latin1",
        "ROW_FORMAT=DYNAMIC",
    ]  # fmt: skip
    if some.random() < 0.04:
        return "ENGINE=BLACKHOLE", table
    if not world.old:
        ways += [
            f"ALTER COLUMN {column} SET INVISIBLE",
            f"ALTER COLUMN {column} SET VISIBLE",
            "ALGORITHM=INPLACE",
        ]
    return some.choice(ways), table


def widen(world: World) -> Steps:
    """ALTERs one after the other that keep all values as they are, of several tables; keys stay as they are."""
    # What a generated column is made of can't be told to keep it.
    tables = [table for table in world.tables.values() if len(table.given) == len(table.columns)]
    for table in world.some.sample(tables, k=len(tables)):
        for column in table.given:
            if column.name in table.key:
                continue
            if wider := WIDER.get(column.kind.text):
                new = replace(column, kind=replace(column.kind, text=wider))
                altered = _with(table, column, new)
                world.tables[table.name] = altered
                yield Sql(f"ALTER TABLE {table.quoted} MODIFY {new.definition}")
                break


# Types, and defaults that are surely the values of all rows that there were.
_CONSTANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "INT": ("7", "-5", "'12'"),
    "BIGINT UNSIGNED": ("18446744073709551615", "0"),
    "DECIMAL(10,2)": ("1.25", "-3.5"),
    "VARCHAR(20)": ("'admin'", "''"),
    "DATE": ("'2024-02-29'",),
    "DATETIME": ("'2024-02-29 23:59:59'",),
}
# And those that rows may have in another form than they are written in.
_DOUBTFUL: Final[Mapping[str, tuple[str, ...]]] = {
    "CHAR(5)": ("'b '", "' '", "'a'"),
    "VARCHAR(20)": (r"'a\tb'", r"'\Z\%'", "'it''s'"),
    "VARCHAR(8) CHARACTER SET latin1": ("'ß'",),
    "VARCHAR(8) CHARACTER SET sjis": ("'表'", "x'5C'"),
    "BINARY(4)": ("'a'",),
    "TIME(2)": ("'10:11:12.34'", "'10:11'"),
    "YEAR": ("'24'",),
    "BIT(10)": ("b'101'",),
}


def extend(world: World) -> Steps:
    """Columns come with constants, one or some at once; rows change before, between and after."""
    some = world.some
    table = some_table(world)
    doubtful = world.hostile and some.random() < 0.5
    constants = _DOUBTFUL if doubtful else _CONSTANTS
    for _ in range(some.choice((1, 1, 2))):
        if table is None:
            return
        clauses = []
        for _ in range(some.choice((1, 1, 2))):
            kind = some.choice([kind for kind in KINDS if kind.text in constants])
            name = name_of_column(world, {each.name for each in table.columns})
            column = Column(name, kind, nullable=some.random() < 0.5)
            table = replace(table, columns=(*table.columns, column))
            clauses.append(f"ADD COLUMN {column.definition} DEFAULT {some.choice(constants[kind.text])}")
        judged = doubtful and some.random() < 0.5  # before anything else has the table read again
        if judged:
            yield Act.REST
        yield Sql(f"ALTER TABLE {table.quoted} {', '.join(clauses)}")
        if judged:
            yield Act.REST
        world.tables[table.name] = table
        if some.random() < 0.6:
            yield change(world, table)


# Tables come and go


def drop(world: World) -> Steps:
    """A table goes, or one that isn't there; and perhaps another one comes by its name."""
    some = world.some
    table = some_table(world)
    if table is None:
        return
    if some.random() < 0.35:
        absent = some.choice((table.name.swapcase(), table.name.upper(), "strasse", "Orders", "nothing"))
        if absent not in world.tables:
            yield Sql(f"DROP TABLE IF EXISTS {quoted(absent)}")
            return
    del world.tables[table.name]
    yield Sql(f"DROP TABLE {some.choice(('', 'IF EXISTS '))}{table.quoted}")
    if some.random() < 0.6:
        yield from _paused(world)
        again = table if some.random() < 0.5 else new_table(world, table.name)
        world.tables[table.name] = again
        yield Sql(again.creation())
        yield insert_into(world, again, 6)


def _paused(world: World) -> Steps:
    if world.some.random() < 0.5:
        yield world.some.choice((Act.CAUGHT_UP, Act.SHORT, Act.LONG))


def rename(world: World) -> Steps:
    """A table takes another name, in one of the ways that there are for that."""
    some = world.some
    table = some_table(world)
    if table is None:
        return
    free = some.choice((f"{table.name}_old", "_kept", name_of_table(world), table.name.swapcase()))
    if free in world.tables or free == table.name:
        return
    yield _renamed(world, table.name, free)
    if some.random() < 0.6:
        yield from _paused(world)
        if some.random() < 0.5 and (other := some_table(world)) and other.name != free:
            yield _renamed(world, other.name, table.name)
        elif some.random() < 0.5:
            yield _renamed(world, free, table.name)
    if other := some_table(world):
        yield change(world, other)


def _renamed(world: World, old: str, new: str) -> Sql:
    world.tables[new] = world.tables.pop(old).called(new)
    if world.some.random() < 0.5:
        return Sql(f"ALTER TABLE {quoted(old)} RENAME {world.some.choice(('TO ', 'AS ', ''))}{quoted(new)}")
    return Sql(f"RENAME TABLE {quoted(old)} TO {quoted(new)}")


def swap(world: World) -> Steps:
    """A copy is made beside a table, altered, filled, and takes its place: as tools do it, or by hand."""
    some = world.some
    table = some_table(world)
    if table is None or table.name.startswith("_"):
        return
    beside, gone = some.choice(
        ((f"_{table.name}_gho", f"_{table.name}_del"), (f"{table.name}_new", f"{table.name}_old"))
    )
    if {beside, gone} & world.tables.keys():
        return
    yield Sql(f"CREATE TABLE {quoted(beside)} LIKE {table.quoted}")
    clause, altered = _clause(world, table.called(beside))
    if clause:
        yield Sql(f"ALTER TABLE {quoted(beside)} {clause}")
    shared = [column.name for column in table.given if column.name in {each.name for each in altered.given}]
    names = ", ".join(map(quoted, shared))
    trigger = some.random() < 0.3
    if trigger and table.key and shared:
        news = ", ".join(f"NEW.{quoted(name)}" for name in shared)
        yield Sql(
            f"CREATE TRIGGER osc_ins AFTER INSERT ON {table.quoted} FOR EACH ROW"
            f" REPLACE INTO {quoted(beside)} ({names}) VALUES ({news})"
        )
    if shared:
        yield Sql(f"INSERT IGNORE INTO {quoted(beside)} ({names}) SELECT {names} FROM {table.quoted}")
    yield change(world, table)
    yield from _paused(world)
    if some.random() < 0.5:
        yield Sql(f"RENAME TABLE {table.quoted} TO {quoted(gone)}, {quoted(beside)} TO {table.quoted}")
    else:
        away = f"RENAME TABLE {table.quoted} TO {quoted(gone)}"
        yield Sql(some.choice((away, f"DROP TABLE IF EXISTS {table.quoted}")))
        yield from _paused(world)
        yield Sql(f"RENAME TABLE {quoted(beside)} TO {table.quoted}")
    world.tables[table.name] = altered.called(table.name)
    yield Sql(f"DROP TABLE IF EXISTS {quoted(gone)}")
    if trigger:
        yield Sql("DROP TRIGGER IF EXISTS osc_ins")
    yield change(world, world.tables[table.name])


def truncate(world: World) -> Steps:
    """All rows of a table go."""
    if table := some_table(world):
        yield Sql(world.some.choice((f"TRUNCATE TABLE {table.quoted}", f"TRUNCATE {table.quoted}")))
        yield change(world, table)


def copy(world: World) -> Steps:
    """Tables that are made of others."""
    some = world.some
    table = some_table(world)
    name = some.choice((f"{table.name}2", name_of_table(world))) if table else ""
    if table is None or name in world.tables:
        return
    if some.random() < 0.5:
        yield Sql(f"CREATE TABLE {quoted(name)} LIKE {table.quoted}")
        world.tables[name] = table.called(name)
    else:
        key = f"(PRIMARY KEY ({', '.join(map(quoted, table.key))}))" if table.key else ""
        yield Sql(f"CREATE TABLE {quoted(name)} {key} AS SELECT * FROM {table.quoted}")
        plain = tuple(replace(column, made="") for column in table.columns)
        world.tables[name] = replace(table, name=name, columns=plain)
    yield change(world, world.tables[name])


def parent(world: World) -> Steps:
    """A child with a foreign key to a table."""
    table = some_table(world)
    if table is None or len(table.key) != 1 or "child" in world.tables:
        return
    [of] = [column for column in table.columns if column.name == table.key[0]]
    child = Table("child", (Column("id", KINDS[0], nullable=False), Column("p", of.kind)), ("id",))
    reference = f"FOREIGN KEY (p) REFERENCES {table.quoted} ({quoted(of.name)})"
    what = world.some.choice(("", " ON DELETE CASCADE", " ON DELETE SET NULL ON UPDATE CASCADE"))
    child = replace(child, extra=(reference + what,))
    world.tables["child"] = child
    yield Sql(child.creation())
    yield Sql(
        f"INSERT IGNORE INTO child SELECT {world.number()}, {quoted(of.name)} FROM {table.quoted} LIMIT 1"
    )
    yield change(world, table)


def around(world: World) -> Steps:
    """What names tables without altering them."""
    some = world.some
    table = some_table(world)
    if table is None:
        return
    number = world.number()
    column = quoted(some.choice(table.columns).name)
    ways: list[tuple[str, ...]] = [
        (f"CREATE VIEW v{number} AS SELECT * FROM {table.quoted}",),
        (f"CREATE OR REPLACE VIEW the_view AS SELECT {column} FROM {table.quoted}",),
        ("DROP VIEW IF EXISTS the_view",),
        (f"CREATE PROCEDURE p{number}() DELETE FROM {table.quoted} LIMIT 1", f"CALL p{number}()"),
        (f"CREATE EVENT e{number} ON SCHEDULE EVERY 1 DAY DISABLE DO DELETE FROM {table.quoted}",),
        (f"ANALYZE TABLE {table.quoted}",),
        (f"OPTIMIZE TABLE {table.quoted}",),
        (f"CREATE TEMPORARY TABLE tmp{number} LIKE {table.quoted}", f"DROP TEMPORARY TABLE tmp{number}"),
        (f"CREATE INDEX i{number} ON {table.quoted} ({column})", f"DROP INDEX i{number} ON {table.quoted}"),
        ("FLUSH TABLES",),
        (f"LOCK TABLES {table.quoted} WRITE", "UNLOCK TABLES"),
        (f"CREATE TEMPORARY TABLE {table.quoted} (a INT)", f"DROP TEMPORARY TABLE {table.quoted}"),
        ("FLUSH BINARY LOGS",),
    ]
    for text in some.choice(ways):
        yield Sql(text)
    if some.random() < 0.5:
        yield change(world, table)


def partitions(world: World) -> Steps:
    """A partitioned table, and what's done to its partitions."""
    some = world.some
    table = world.tables.get("parts")
    if table is None:
        columns = (Column("id", KINDS[0], nullable=False), Column("v", KINDS[11]))
        by = " PARTITION BY RANGE(id)(PARTITION p VALUES LESS THAN (100), PARTITION q VALUES LESS THAN (100000))"
        table = Table("parts", columns, ("id",), by)
        world.tables["parts"] = table
        yield Sql(table.creation())
        yield insert_into(world, table, 8)
        yield Sql("INSERT INTO parts (id, v) VALUES (101, 'q'), (102, 'q'), (103, 'r')")
        return
    away = "CREATE TABLE IF NOT EXISTS part (id INT NOT NULL PRIMARY KEY, v VARCHAR(20))"
    two = "PARTITION q1 VALUES LESS THAN (500), PARTITION q VALUES LESS THAN (100000)"
    ways: list[tuple[str, ...]] = [
        ("ALTER TABLE parts TRUNCATE PARTITION q",),
        ("ALTER TABLE parts DROP PARTITION p",),
        (
            away,
            "INSERT IGNORE INTO part VALUES (7, 'x'), (8, 'y')",
            "ALTER TABLE parts EXCHANGE PARTITION p WITH TABLE part",
        ),
        (f"ALTER TABLE parts REORGANIZE PARTITION q INTO ({two})",),
        ("ALTER TABLE parts ADD PARTITION (PARTITION z VALUES LESS THAN (200000))",),
        ("ALTER TABLE parts REMOVE PARTITIONING",),
        ("ALTER TABLE parts REBUILD PARTITION p",),
    ]
    for text in some.choice(ways):
        yield Sql(text)
    yield change(world, table)


def databases(world: World) -> Steps:
    """Databases come and go: the history's own, and one whose name differs by case, which isn't captured."""
    some = world.some
    match some.random():
        case x if x < 0.4:
            yield Sql("DROP DATABASE IF EXISTS `{DB}`")
        case x if x < 0.75 and (table := some_table(world)):
            other = replace(table, database="{DB}")
            yield Sql("CREATE DATABASE IF NOT EXISTS `{DB}` CHARACTER SET utf8mb4")
            yield Sql(other.creation())
            yield insert_into(world, other)
            clause, _ = _clause(world, other)
            yield Sql(
                some.choice((f"ALTER TABLE {other.quoted} {clause or 'FORCE'}", f"DROP TABLE {other.quoted}"))
            )
        case _:
            yield Sql("DROP DATABASE `{db}`")
            yield from _paused(world)
            yield Sql("CREATE DATABASE `{db}` CHARACTER SET utf8mb4")
            yield Sql("USE `{db}`")
            yield Sql("USE `{db}`", 1)
            world.tables.clear()
            yield from create(world)


def branches(world: World) -> Steps:
    """XA transactions, which end at once, later, or not before the next rest."""
    some = world.some
    name = f"'{{db}}-{world.number()}'"
    table = some_table(world)
    if table is None:
        return
    yield Sql(f"XA START {name}", 1)
    for _ in range(some.randint(0, 3)):
        yield replace(change(world, table), session=1)
    yield Sql(f"XA END {name}", 1)
    if some.random() < 0.2:
        yield Sql(f"XA COMMIT {name} ONE PHASE", 1)
        return
    yield Sql(f"XA PREPARE {name}", 1)
    if some.random() < 0.6:
        other = some_table(world)
        if other and other is not table:
            yield change(world, other)
        yield from _paused(world)
    elif some.random() < 0.3:
        # The foreign keys of MySQL 5.6 forbid a first start, and its log has nothing that's only prepared.
        first = () if world.old else (Act.NEW_JOURNAL,)
        yield some.choice((Act.RESTART_SERVICE, Act.KILL_SERVICE, *first))
    yield Sql(some.choice((f"XA COMMIT {name}", f"XA COMMIT {name}", f"XA ROLLBACK {name}")), 1)


def prepared(world: World) -> Steps:
    """An XA transaction is prepared before capture begins, and committed after its first snapshots."""
    table = some_table(world)
    if table is None or world.old:  # the log of MySQL 5.6 has nothing that's only prepared
        return
    name = f"'{{db}}-{world.number()}'"
    yield Sql("COMMIT")
    yield Sql(f"XA START {name}", 1)
    yield replace(insert_into(world, table), session=1)
    yield replace(change(world, table), session=1)
    yield Sql(f"XA END {name}", 1)
    yield Sql(f"XA PREPARE {name}", 1)
    yield Act.NEW_JOURNAL
    yield Sql(f"XA COMMIT {name}", 1)
    yield Act.REST


def elsewhere(world: World) -> Steps:
    """An XA transaction of a database that isn't captured stays prepared while the log is purged."""
    if world.old:  # its log has no transaction before that's committed
        return
    name = f"'{{db}}-{world.number()}'"
    yield Sql("CREATE DATABASE IF NOT EXISTS `{DB}` CHARACTER SET utf8mb4")
    yield Sql("CREATE TABLE IF NOT EXISTS `{DB}`.`x` (id INT NOT NULL PRIMARY KEY)")
    yield Sql(f"XA START {name}", 1)
    yield Sql(f"INSERT INTO `{{DB}}`.`x` VALUES ({world.number()})", 1)
    yield Sql(f"XA END {name}", 1)
    yield Sql(f"XA PREPARE {name}", 1)
    yield from write(world)
    yield Act.PURGE_LOG
    yield world.some.choice((Act.RESTART_SERVICE, Act.KILL_SERVICE))
    yield from write(world)


def settings(world: World) -> Steps:
    """Settings of a session."""
    some = world.some
    zones = ("+00:00", "+05:30", "-11:00", *(("SYSTEM",) if world.summer else ()))
    ways = [
        f"SET SESSION sql_mode = '{some.choice(_MODES)}'",
        f"SET SESSION time_zone = '{some.choice(zones)}'",
        f"SET SESSION binlog_row_image = {some.choice(('FULL', 'MINIMAL', 'NOBLOB'))}",
        f"SET SESSION foreign_key_checks = {some.choice('01')}",
        f"SET SESSION binlog_rows_query_log_events = {some.choice('01')}",
        "SET NAMES utf8mb4",
    ]
    if not world.old:
        ways.append(f"SET SESSION sql_generate_invisible_primary_key = {some.choice('01')}")
    yield Sql(some.choice(ways))


def by_statement(world: World) -> Steps:
    """A session logs statements in place of rows for a while."""
    table, some = some_table(world), world.some
    if table is None:
        return
    yield Sql(f"SET SESSION binlog_format = {some.choice(('STATEMENT', 'STATEMENT', 'MIXED'))}")
    yield from some.choice((_hidden, _made_by_query, _deleted, _prepared_statements))(world, table)
    yield Sql("SET SESSION binlog_format = ROW")


def _hidden(world: World, table: Table) -> Steps:
    """A temporary table hides the table from its session."""
    yield Sql(f"CREATE TEMPORARY TABLE {table.quoted} (id INT NOT NULL PRIMARY KEY, hidden INT, v INT)")
    for clause in world.some.sample(("ALTER TABLE {} DROP COLUMN v", "TRUNCATE {}"), k=2):
        yield Sql(clause.format(table.quoted))
        yield from _paused(world)
    yield Sql(f"DROP TEMPORARY TABLE {table.quoted}")


def _made_by_query(world: World, table: Table) -> Steps:
    """A table goes, and comes back with the rows of another one."""
    other = some_table(world)
    if other is None or other is table:
        return
    yield Sql(f"DROP TABLE {table.quoted}")
    yield from _paused(world)
    key = f"(PRIMARY KEY ({', '.join(map(quoted, other.key))}))" if other.key else ""
    yield Sql(f"CREATE TABLE {table.quoted} {key} AS SELECT * FROM {other.quoted}")
    plain = tuple(replace(column, made="") for column in other.columns)
    world.tables[table.name] = replace(other, name=table.name, columns=plain)


def _deleted(world: World, table: Table) -> Steps:
    """All rows go, by the table's name or by a view's, and a trigger may write other ones."""
    name = quoted(f"view{world.number()}")
    yield Sql(f"CREATE VIEW {name} AS SELECT * FROM {table.quoted}")
    other = some_table(world)
    if other is not None and other is not table and world.some.random() < 0.5:
        trigger = quoted(f"trigger{world.number()}")
        yield Sql(
            f"CREATE TRIGGER {trigger} AFTER DELETE ON {table.quoted} FOR EACH ROW DELETE FROM {other.quoted}"
        )
    yield Sql(f"DELETE FROM {world.some.choice((name, table.quoted, f'`{{db}}`.{table.quoted}'))}")


def _prepared_statements(world: World, table: Table) -> Steps:
    """An XA transaction of statements waits for its second phase."""
    name = f"'{{db}}-{world.number()}'"
    yield Sql(f"XA START {name}")
    yield change(world, table)
    yield Sql(f"XA END {name}")
    if world.old:  # a session of MySQL 5.6 does nothing else before the second phase
        yield Sql(f"XA COMMIT {name} ONE PHASE")
        return
    yield Sql(f"XA PREPARE {name}")
    yield from _paused(world)
    yield Sql(world.some.choice((f"XA COMMIT {name}", f"XA ROLLBACK {name}")))


def quoting(world: World) -> Steps:
    """Statements in modes in which other characters quote."""
    if table := some_table(world):
        name = '"' + table.name.replace('"', '""') + '"'
        yield Sql("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        column = name_of_column(world, {each.name for each in table.columns}).replace('"', '""')
        yield Sql(
            world.some.choice(
                (f'ALTER TABLE {name} ADD COLUMN "{column}" INT NOT NULL DEFAULT 3', f"TRUNCATE {name}")
            )
        )
        yield Sql("SET SESSION sql_mode = DEFAULT")


def creations(world: World) -> Steps:
    """Several tables in a row, as a migration makes them."""
    for _ in range(3):
        table = new_table(world, f"new{world.number()}")
        world.tables[table.name] = table
        yield Sql(table.creation())
        yield insert_into(world, table, 3)


# Types that seem to keep each value of others, and mostly do.
_CONVERSIONS: Final = (
    ("VARCHAR(20)", "VARCHAR(20) COLLATE utf8mb4_bin"), ("VARCHAR(20)", "CHAR(20)"), ("FLOAT", "DOUBLE"),
    ("FLOAT", "FLOAT8(10,2)"), ("FLOAT", "FLOAT4(6,1)"), ("DATE", "DATETIME"), ("VARCHAR(400)", "TINYTEXT"),
    ("TEXT", "TINYTEXT"), ("CHAR(5)", "VARCHAR(9)"), ("SMALLINT", "INT"), ("DOUBLE", "FLOAT(7,3)"),
    ("DECIMAL(10,2)", "DECIMAL(50,5)"),
)  # fmt: skip


def converted(world: World) -> Steps:
    """A column of a table that's complete becomes one of another type, in some mode."""
    some = world.some
    old, to = some.choice(_CONVERSIONS) if some.random() < 0.6 else ("", "")
    kind = next((kind for kind in KINDS if kind.text == old), None) or kind_of(world)
    table = Table(
        f"conv{world.number()}", (Column("id", KINDS[0], nullable=False), Column("c", kind)), ("id",)
    )
    column = table.columns[1]
    if not world.old and some.random() < 0.5:
        table = replace(table, columns=(*table.columns, made(world, {"id", "c"}, [column])))
    world.tables[table.name] = table
    yield Sql(table.creation())
    yield insert_into(world, table, 8)
    yield some.choice((Act.CAUGHT_UP, Act.REST))
    mode = (
        "DEFAULT"
        if some.random() < 0.5
        else f"'{_PADDING if old.startswith('CHAR') else some.choice(_MODES)}'"
    )
    yield Sql(f"SET SESSION sql_mode = {mode}")
    new = replace(column, kind=replace(kind, text=to)) if to else _become(world, table, column)
    yield Sql(f"ALTER TABLE {table.quoted} MODIFY {new.definition}")
    yield Sql("SET SESSION sql_mode = DEFAULT")
    world.tables[table.name] = _with(table, column, new)
    yield from _paused(world)
    yield change(world, world.tables[table.name])


def alike(world: World) -> Steps:
    """Keys that are different in the source and may not be so elsewhere."""
    some = world.some
    kind = some.choice([kind for kind in KINDS if kind.text == "DATE" or "sjis" in kind.text])
    if kind.text == "DATE" and some.random() < 0.5:  # no zero date, which would stop the table
        kind = replace(kind, values=_EARLY)
    table = Table(f"like{world.number()}", (Column("k", kind, nullable=False), Column("v", KINDS[0])), ("k",))
    world.tables[table.name] = table
    yield Sql("SET SESSION sql_mode = ''")
    yield Sql(table.creation())
    yield from _paused(world)
    for _ in range(3):
        yield insert_into(world, table, 2)
    yield Sql("SET SESSION sql_mode = DEFAULT")
    yield change(world, table)


def cased(world: World) -> Steps:
    """Two tables whose names differ by case alone."""
    number = world.number()
    columns = (Column("id", KINDS[0], nullable=False), Column("v", KINDS[0]))
    for name in (f"Pair{number}", f"pair{number}"):
        table = Table(name, columns, ("id",))
        world.tables[name] = table
        yield Sql(table.creation())
        yield insert_into(world, table, 4)
        yield from _paused(world)


def known(world: World) -> Steps:
    """A table whose columns have names that a query or Spark has, too; it changes once it's filled."""
    names = ("id", *world.some.choice(_KNOWN))
    columns = tuple(Column(name, KINDS[0], nullable=name != "id") for name in names)
    table = Table(f"known{world.number()}", columns, ("id",))
    world.tables[table.name] = table
    yield Sql(table.creation())
    yield insert_into(world, table, 6)
    yield Act.CAUGHT_UP
    yield from (change(world, table) for _ in range(2))


def forgotten(world: World) -> Steps:
    """A server that starts has no rows of a MEMORY table."""
    columns = (Column("id", KINDS[0], nullable=False), Column("v", KINDS[0]))
    table = Table(f"mem{world.number()}", columns, ("id",), " ENGINE=MEMORY")
    world.tables[table.name] = table
    yield Sql(table.creation())
    yield insert_into(world, table, 5)
    yield Act.CAUGHT_UP
    yield world.some.choice((Act.RESTART_SERVER, Act.KILL_SERVER))
    yield world.some.choice((Sql(f"SELECT COUNT(*) FROM {table.quoted}"), insert_into(world, table, 2)))


def ignoring(world: World) -> Steps:
    """ALTER IGNORE drops the rows that hinder a unique key; MySQL 5.6 alone has it."""
    table = some_table(world)
    fitting = [column for column in table.given if column.kind.key] if table and world.old else []
    if table is None or not fitting:
        return
    yield insert_into(world, table, 8)
    yield from _paused(world)
    column = quoted(world.some.choice(fitting).name)
    yield Sql(f"ALTER IGNORE TABLE {table.quoted} ADD UNIQUE KEY ({column})")
    yield from _paused(world)
    yield change(world, table)


def merged(world: World) -> Steps:
    """Rows of a table change through a MERGE table, which may be captured too."""
    if world.old:  # it describes no MERGE table whose part has another engine by now
        return
    some, number = world.some, world.number()
    columns = (Column("id", KINDS[0], nullable=False), Column("v", KINDS[0]))
    table = Table(f"part_of{number}", columns, ("id",), " ENGINE=MyISAM")
    union = f" ENGINE=MERGE UNION=({table.quoted}) INSERT_METHOD=LAST"
    merge = Table(f"{some.choice(('', '_'))}merge{number}", columns, ("id",), union)
    world.tables[table.name] = table
    yield Sql(table.creation())
    yield insert_into(world, table, 5)
    yield from _paused(world)
    yield Sql(merge.creation())
    yield from _paused(world)
    yield change(world, merge)
    yield from _paused(world)
    yield change(world, table)


def signalled(_: World) -> Steps:
    """Somebody asks for a snapshot."""
    yield Act.EXECUTE


def recaptured(world: World) -> Steps:
    """What stops tables is mended where it can be, and they're begun again."""
    for table in world.tables.values():
        yield Sql(f"ALTER TABLE {table.quoted} ENGINE=InnoDB")
        if table.given and table.given[0].kind.group is Group.DAY:
            yield Sql(f"DELETE FROM {table.quoted} WHERE {quoted(table.given[0].name)} < '1000-01-01'")
    yield Act.RECAPTURE
    yield Act.REST


def again(world: World) -> Steps:
    """The server gives the same GTIDs to other transactions; an old one's log hasn't the times to tell by."""
    if not world.old:
        yield Act.RESET_LOG
        yield from write(world)


def struck(world: World) -> Steps:
    """The service, or more seldom the server, ends and comes back."""
    ways = [Act.RESTART_SERVICE, Act.KILL_SERVICE, Act.POWER_CUT]
    seldom = [Act.RESTART_SERVER, Act.KILL_SERVER]
    yield world.some.choice(seldom if world.some.random() < 0.1 else ways)


def clocks(world: World) -> Steps:
    """A table has instants that are one local time where clocks go back, and is copied in that time zone."""
    if not world.summer:
        return
    some = world.some
    having = [
        table for table in world.tables.values() if any(map(_is_instant, table.given)) and not table.engine
    ]
    if having and some.random() < 0.5:
        table = some.choice(having)
    else:
        [kind] = [kind for kind in KINDS if kind.text.startswith(_TIMESTAMP)]
        columns = (Column("id", KINDS[0], nullable=False), Column("at", kind), Column("v", kind_of(world)))
        table = Table(f"clock{world.number()}", columns, ("id",))
        world.tables[table.name] = table
        yield Sql(table.creation())
    given = tuple(
        replace(column, kind=replace(column.kind, values=_ONE_LOCAL_TIME)) if _is_instant(column) else column
        for column in table.columns
    )
    yield Sql("SET SESSION time_zone = '+00:00'")
    yield insert_into(world, replace(table, columns=given), 8)
    yield Sql("SET SESSION time_zone = SYSTEM")
    yield some.choice((Act.CAUGHT_UP, Act.CAUGHT_UP, Act.REST))
    if some.random() < 0.2:
        yield Sql(f"OPTIMIZE TABLE {table.quoted}")
    else:
        clause, altered = _clause(world, table)
        yield Sql(f"ALTER TABLE {table.quoted} {clause or 'FORCE'}")
        world.tables[table.name] = altered
    yield from _paused(world)
    yield change(world, world.tables[table.name])


def _is_instant(column: Column) -> bool:
    return column.kind.text.startswith(_TIMESTAMP)


def cut(world: World) -> Steps:
    """The power goes when the lake has what a statement did, and no row came with it."""
    table = some_table(world)
    if table is None:
        return
    clause, altered = _clause(world, table)
    yield Act.REST
    if clause:
        yield Sql(f"ALTER TABLE {table.quoted} {clause}")
        world.tables[table.name] = altered
    yield world.some.choice((Act.CAUGHT_UP, Act.REST, Act.REST))
    yield Act.POWER_CUT
    yield from write(world)


def older(world: World) -> Steps:
    """An older copy of the journal takes its place, while the source and the lake have gone on."""
    some = world.some
    yield Act.KILL_SERVICE
    for _ in range(some.randint(1, 3)):
        yield from some.choice((write, transact, alter, extend))(world)
        yield from _paused(world)
    yield some.choice((Act.CAUGHT_UP, Act.REST, Act.REST))
    yield Act.OLDER_JOURNAL
    yield from write(world)


def restored(world: World) -> Steps:
    """Somebody sets a table of the lake back."""
    yield from write(world)
    yield Act.REST
    yield from write(world)
    yield Act.REST
    yield Act.RESTORE_TABLE
    yield from write(world)


def beside(world: World) -> Steps:
    """Another pipeline captures the same tables for a while."""
    if not world.old:  # its foreign keys may forbid a first start
        yield Act.OTHER_PIPELINE
    yield from write(world)


Move = Callable[[World], Steps]
MOVES: Final[dict[Move, int]] = {
    write: 30, transact: 12, alter: 36, create: 12, drop: 9, rename: 9, swap: 9, truncate: 4, copy: 7, parent: 4,
    around: 9, partitions: 5, databases: 3, branches: 5, elsewhere: 1, settings: 7, quoting: 1, creations: 2,
    signalled: 3, struck: 3, widen: 3, extend: 6, converted: 9, alike: 2, forgotten: 1, recaptured: 3, again: 1,
    merged: 1, ignoring: 1, prepared: 1, cased: 2, known: 2, by_statement: 2, clocks: 8, cut: 1, older: 1,
    restored: 1, beside: 1,
}  # fmt: skip
# What makes no table's rows others, beside changes of rows.
CALM: Final[dict[Move, int]] = {write: 20, transact: 10, widen: 20, extend: 12, around: 8, struck: 2}
