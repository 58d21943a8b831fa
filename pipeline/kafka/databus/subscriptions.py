"""Databus' `subs` and `checkPointMult`: sources and places of several physical partitions.

The journal is one physical partition, whose number is 0. A subscription may name it or any (-1), and a checkpoint of
several partitions has that of this one.

Source: Databus 2.0, `DatabusSubscription`, `PhysicalPartition`, `LogicalSourceId`, `LogicalSource`, `CheckpointMult`.
"""

import json
from typing import Any, Final

from pipeline.journal.changes.query import MalformedRequest

_PARTITION: Final = 0
_ANY: Final = -1
_ANY_NAME: Final = "*"
_SUBS: Final = 'give [{"logicalPartition": {"source": {"id": 7}}}]'
_MULT: Final = 'give {"{\\"id\\":0,\\"name\\":\\"*\\"}": "{\\"windowScn\\": 345, \\"windowOffset\\": -1}"}'


def parse_subscriptions(text: str) -> tuple[str, ...]:
    """Returns the sources of the subscriptions, each by its number or name; none for all. Raises MalformedRequest."""
    told = _json("subs", text, _SUBS)
    if not isinstance(told, list) or not told or not all(isinstance(each, dict) for each in told):
        raise MalformedRequest(f"subs: it is no list of subscriptions; {_SUBS}")
    named = [_named(each) for each in told]
    return () if None in named else tuple(name for name in named if name is not None)


def parse_partition_checkpoint(text: str) -> str:
    """Returns the journal's checkpoint, in JSON. Raises MalformedRequest."""
    told = _json("checkPointMult", text, _MULT)
    if not isinstance(told, dict):
        raise MalformedRequest(f"checkPointMult: it is no object; {_MULT}")
    # Others are hints, such as cursorPartition.
    checkpoints = {name: each for name, each in told.items() if name.startswith("{")}
    for name in checkpoints:
        _check_number("checkPointMult", "the partition", _json("checkPointMult", name, _MULT), _PARTITION)
    if len(checkpoints) != 1:
        raise MalformedRequest(
            f"checkPointMult: it has {len(checkpoints)} partitions, and the journal is one; {_MULT}"
        )
    [checkpoint] = checkpoints.values()
    return checkpoint if isinstance(checkpoint, str) else json.dumps(checkpoint)


def _named(told: dict[str, Any]) -> str | None:
    """Returns the source of a subscription, None for all."""
    logical = _part(told, "logicalPartition")
    _check_number("subs", "physicalPartition", _part(told, "physicalPartition"), _PARTITION)
    _check_number("subs", "logicalPartition", logical, _PARTITION)
    source = _part(logical, "source")
    number, name = source.get("id", _ANY), source.get("name", _ANY_NAME)
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(name, str):
        raise MalformedRequest(f"subs: source is {json.dumps(source)}, without a number or a name; {_SUBS}")
    if number != _ANY:
        return str(number)
    return None if name == _ANY_NAME else name


def _part(told: dict[str, Any], name: str) -> dict[str, Any]:
    part = told.get(name, {})
    if not isinstance(part, dict):
        raise MalformedRequest(f"subs: {name} is {json.dumps(part)}, and no object; {_SUBS}")
    return part


def _check_number(parameter: str, name: str, told: object, only: int) -> None:
    """Raises MalformedRequest if a partition is another one."""
    number = told.get("id", _ANY) if isinstance(told, dict) else None
    if isinstance(number, bool) or number not in (only, _ANY):
        raise MalformedRequest(
            f"{parameter}: {name} is {json.dumps(told)}, and the journal is the partition {only}"
        )


def _json(parameter: str, text: str, remedy: str) -> object:
    try:
        told: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"{parameter}: it isn't JSON ({error}); {remedy}") from error
    return told
