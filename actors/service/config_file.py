"""The configuration: a TOML file and the environment in, `pipeline.config.settings.Settings` or all mistakes at once
out.

Tables and keys of the file are the fields of the settings. A variable `TIDEMARK__SECTION__KEY` wins over the file. Its
value is plain text for a text field, and written as in the file for others (`true`, `4`, `["a", "b"]`). A password
never stands in the file: that of `[source]` is read from `source.password_file` or `TIDEMARK__SOURCE__PASSWORD`, and
others likewise. Paths are relative to the file's folder.
"""

import dataclasses
import difflib
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any

from actors.runtime import secret_files
from actors.service.installation import pinned_jars
from pipeline.config.lake_types import UNAVAILABLE
from pipeline.config.settings import Secret, Settings
from pipeline.config.validation import Mistake, contradictions
from pipeline.errors import Definite
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

ENVIRONMENT = "TIDEMARK__"

_MISSING = object()

# Keys of earlier versions, by their full names, and what to do about them.
_CONSTANT = "remove it: Tidemark has one value that suits all, {value}"
REMOVED_KEYS: Mapping[str, str] = {
    "snapshot.chunk_mib": _CONSTANT.format(value="8 MiB"),
    "source.catch_up_s": _CONSTANT.format(value="60 seconds"),
}

_WANTED: dict[type[object], str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    PurePath: "a path, as text",
}


class InvalidConfiguration(Definite):
    """The configuration can't be used; the message lists all that is wrong with it, one mistake a line."""

    def __init__(self, path: Path, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join([f"{path} can't be used:", *(f"  {mistake}" for mistake in mistakes)]))
        self.mistakes = mistakes


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this file under this environment. Raises InvalidConfiguration."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfiguration(path, [_unreadable("the file", error)]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(path, [Mistake("the file", str(error), "write it in TOML")]) from error
    reader = _Reader(path.resolve().parent, environment)
    reader.override(document)
    settings = reader.section(Settings, document, "")
    if reader.mistakes:
        raise InvalidConfiguration(path, reader.mistakes)
    assert isinstance(settings, Settings)
    return _with_installed_jars(settings)


def _with_installed_jars(settings: Settings) -> Settings:
    """The settings with the jars that `tidemark setup` has fetched, where they name no Delta."""
    spark, installed = settings.spark, pinned_jars.installed_folder()
    if spark.by_connect or not installed.is_dir() or pinned_jars.have_delta(spark.jars):
        return settings
    return dataclasses.replace(settings, spark=dataclasses.replace(spark, jars=(*spark.jars, installed)))


class _Reader:
    """Turns plain values into settings, and collects the mistakes in them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.mistakes: list[Mistake] = []
        self._folder = folder
        self._environment = environment

    def override(self, document: dict[str, Any]) -> None:
        """Put the environment's values into the document."""
        for variable, text in sorted(self._environment.items()):
            if not variable.startswith(ENVIRONMENT):
                continue
            *sections, key = variable.removeprefix(ENVIRONMENT).lower().split("__")
            kind = _kind_of((*sections, key))
            if kind is None:
                self._wrong(variable, "there's no such key", "remove the variable")
            if kind is None or kind is Secret:
                continue
            table = document
            for section in sections:
                table = table.setdefault(section, {})
                if not isinstance(table, dict):
                    break  # reported where the table is read
            else:
                table[key] = self._from_text(variable, kind, text)

    def section(self, kind: type[object], values: object, key: str) -> object:
        """A settings class from a table of the file."""
        if not isinstance(values, dict):
            return self._wrong(key, f"{values!r} isn't a table", f"write it as [{key}]")
        hints = typing.get_type_hints(kind)
        fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        known = [_file_of(name) if hints[name] is Secret else name for name in fields]
        for name in sorted(values.keys() - fields.keys() - set(known)):
            self._unknown(_join(key, name), name, known)
        arguments: dict[str, object] = {}
        for name, field in fields.items():
            path = _join(key, name)
            if hints[name] is Secret:
                arguments[name] = self._secret(values, name, path, field.metadata.get("may_be_here", False))
            elif values.get(name) == "" and field.metadata.get("may_be_empty"):
                arguments[name] = ""
            elif name in values:
                arguments[name] = self._value(hints[name], values[name], path)
                if field.metadata.get("location"):
                    arguments[name] = self._absolute(arguments[name])
                self._bound(field, arguments[name], path)
            elif _required(field):
                arguments[name] = self._missing(hints[name], path)
        if _MISSING in arguments.values():
            return _MISSING
        made = kind(**arguments)
        for mistake in contradictions(made):
            self._wrong(_join(key, mistake.key), mistake.wrong, mistake.remedy)
        return made

    def _secret(self, values: dict[str, Any], name: str, key: str, may_be_here: bool) -> Secret:
        """What the environment or a file of its own says, or the configuration if it may; nothing where none does."""
        if may_be_here and name in values:
            if _file_of(name) in values:
                self._wrong(_file_of(key), f"{name} is set as well", "keep one of the two")
            if not isinstance(values[name], str):
                self._wrong(key, "it isn't text", "write it in quotes")
            return Secret(str(values[name]))
        if name in values:
            self._wrong(key, f"a {name} doesn't belong in this file", f"use {_file_of(key)}")
        variable = ENVIRONMENT + key.upper().replace(".", "__")
        given, file = self._environment.get(variable), values.get(_file_of(name))
        if file is None:
            return Secret(given or "")
        if given is not None:
            self._wrong(_file_of(key), f"{variable} is set as well", "keep one of the two")
        elif not isinstance(file, str):
            self._wrong(_file_of(key), f"{file!r} isn't text", "give a path")
        else:
            try:
                return secret_files.read_secret(self._folder / file)
            except OSError as error:
                self.mistakes.append(_unreadable(_file_of(key), error))
        return Secret("")

    def _missing(self, kind: type[object], key: str) -> object:
        if _is_section(kind):
            return self.section(kind, {}, key)  # names the keys that it needs
        return self._wrong(key, "it's missing", "add it")

    def _value(self, kind: object, value: object, key: str) -> object:
        if value is _MISSING:
            return value
        if kind is TableFilter:
            return self._tables(value, key)
        if kind is TableId:
            return self._table(value, key)
        if isinstance(kind, types.UnionType):
            return self._value(_without_none(kind), value, key)
        if typing.get_origin(kind) is tuple:
            of = typing.get_args(kind)[0]
            return self._sections(of, value, key) if _is_section(of) else self._texts_or_paths(of, value, key)
        if typing.get_origin(kind) is dict:
            return self._conf(value, key)
        assert isinstance(kind, type)
        return self.section(kind, value, key) if _is_section(kind) else self._scalar(kind, value, key)

    def _scalar(self, kind: type[object], value: object, key: str) -> object:
        if issubclass(kind, StrEnum):
            return self._choice(kind, value, key)
        if value == "":
            return self._wrong(key, "it's empty", "fill it in")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if kind is PurePath and isinstance(value, str):
            return self._path(value)
        if type(value) is not kind:
            wanted = _WANTED[kind]
            return self._wrong(key, f"{value!r} isn't {wanted}", f"give {wanted}")
        return value

    def _choice(self, kind: type[StrEnum], value: object, key: str) -> object:
        known = [choice.value for choice in kind]
        if value in known:
            return kind(value)
        choices = [choice for choice in known if choice not in UNAVAILABLE]
        close = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else ()
        meant = f"did you mean {close[0]}? " if close else ""
        return self._wrong(key, f"{value!r} isn't one of them", f"{meant}choose from {', '.join(choices)}")

    def _texts(self, value: object, key: str) -> tuple[str, ...] | None:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._wrong(key, f"{value!r} isn't a list of texts", 'write it as ["…", "…"]')
        return None

    def _tables(self, value: object, key: str) -> object:
        patterns = self._texts(value, key)
        try:
            return _MISSING if patterns is None else TableFilter(patterns)
        except ValueError as error:
            return self._wrong(key, str(error), "fix or remove it")

    def _table(self, value: object, key: str) -> object:
        database, _, name = value.partition(".") if isinstance(value, str) else ("", "", "")
        if not database or not name:
            return self._wrong(key, f"{value!r} isn't a table's name", 'write it as "database.table"')
        return TableId(database, name)

    def _sections(self, kind: type[object], value: object, key: str) -> object:
        if not isinstance(value, list):
            return self._wrong(key, f"{value!r} isn't a list of tables", f"write each as [[{key}]]")
        found = tuple(self.section(kind, item, f"{key}[{at}]") for at, item in enumerate(value, start=1))
        return _MISSING if _MISSING in found else found

    def _texts_or_paths(self, kind: object, value: object, key: str) -> object:
        texts = self._texts(value, key)
        if texts is None:
            return _MISSING
        return tuple(self._path(path) for path in texts) if kind is PurePath else texts

    def _conf(self, value: object, key: str) -> object:
        # Another setting may be a secret, so that no value is shown.
        remedy = 'write each setting as "spark.x" = "…"'
        if not isinstance(value, dict):
            return self._wrong(key, "it isn't a table of texts", remedy)
        if others := [name for name, item in value.items() if not isinstance(item, str)]:
            return self._wrong(key, f"{', '.join(map(repr, others))} isn't text", remedy)
        return value

    def _absolute(self, value: object) -> object:
        """A local path made absolute; a URI as it is."""
        return str(self._path(value)) if isinstance(value, str) and "://" not in value else value

    def _path(self, text: str) -> PurePath:
        return PurePath(self._folder / Path(text).expanduser())

    def _bound(self, field: "dataclasses.Field[object]", value: object, key: str) -> None:
        if value is _MISSING:
            return
        match field.metadata:
            case {"least": least} if value < least:
                self._wrong(key, f"{value} is too little", f"the least is {least}")
            case {"most": most} if value > most:
                self._wrong(key, f"{value} is too much", f"the most is {most}")
            case {"pattern": pattern, "words": words} if not re.fullmatch(pattern, str(value)):
                self._wrong(key, f"{value!r} won't do", f"give {words}")

    def _from_text(self, variable: str, kind: object, text: str) -> object:
        if isinstance(kind, type) and issubclass(kind, str | PurePath | TableId):
            return text
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return self._wrong(variable, "what it says isn't a value of TOML", "write it as in the file")

    def _unknown(self, key: str, name: str, known: list[str]) -> None:
        if key in REMOVED_KEYS:
            self._wrong(key, "there's no such key any more", REMOVED_KEYS[key])
            return
        close = difflib.get_close_matches(name, known, 1)
        self._wrong(key, "there's no such key", f"did you mean {close[0]}?" if close else "remove it")

    def _wrong(self, key: str, wrong: str, remedy: str) -> object:
        self.mistakes.append(Mistake(key, wrong, remedy))
        return _MISSING


def _kind_of(names: tuple[str, ...]) -> object:
    """The type of the field that is reached by these names, None if there's none."""
    kind: object = Settings
    for name in names:
        if not _is_section(kind):
            return None
        hints = typing.get_type_hints(kind)
        files = {_file_of(field): str for field, of in hints.items() if of is Secret}
        kind = _without_none({**hints, **files}.get(name))
    return kind


def _without_none(kind: object) -> object:
    """The type of a value that may be left out, where it isn't."""
    return typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else kind


def _file_of(secret: str) -> str:
    """The key that names the file in which a secret is."""
    return f"{secret}_file"


def _is_section(kind: object) -> bool:
    return dataclasses.is_dataclass(kind) and kind not in (TableFilter, TableId, Secret)


def _required(field: "dataclasses.Field[object]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _unreadable(key: str, error: OSError) -> Mistake:
    return Mistake(
        key, f"it can't be read ({error.strerror}: {error.filename})", "see to its path and its mode"
    )
