"""Databus' `subs` and `checkPointMult`: sources and places of several physical partitions.

The journal is one physical partition, whose number is 0. A subscription may name it or any (-1), and a checkpoint of
several partitions has that of this one.

Source: Databus 2.0, `DatabusSubscription`, `PhysicalPartition`, `LogicalSourceId`, `LogicalSource`, `CheckpointMult`.
"""

import json
from typing import Any, Final

from pipeline.journal.request_parameters import MalformedRequest

_PARTITION: Final = 0
_ANY: Final = -1
_ANY_NAME: Final = "*"
_SUBS: Final = 'give [{"logicalPartition": {"source": {"id": 7}}}]'
_MULT: Final = 'give {"{\\"id\\":0,\\"name\\":\\"*\\"}": "{\\"windowScn\\": 345, \\"windowOffset\\": -1}"}'


def parse_subscriptions(text: str) -> tuple[str, ...]:
    """Returns the sources of the subscriptions, each by its number or name; none for all. Raises MalformedRequest."""
    document = _json("subs", text, _SUBS)
    if not isinstance(document, list) or not document or not all(isinstance(each, dict) for each in document):
        raise MalformedRequest(f"subs: it is no list of subscriptions; {_SUBS}")
    named = [_named(each) for each in document]
    return () if None in named else tuple(name for name in named if name is not None)


def parse_partition_checkpoint(text: str) -> str:
    """Returns the journal's checkpoint, in JSON. Raises MalformedRequest."""
    document = _json("checkPointMult", text, _MULT)
    if not isinstance(document, dict):
        raise MalformedRequest(f"checkPointMult: it is no object; {_MULT}")
    # Others are hints, such as cursorPartition.
    checkpoints = {name: each for name, each in document.items() if name.startswith("{")}
    for name in checkpoints:
        _check_partition("checkPointMult", "the partition", _json("checkPointMult", name, _MULT))
    if len(checkpoints) != 1:
        raise MalformedRequest(
            f"checkPointMult: it has {len(checkpoints)} partitions, and the journal is one; {_MULT}"
        )
    [checkpoint] = checkpoints.values()
    return checkpoint if isinstance(checkpoint, str) else json.dumps(checkpoint)


def _named(document: dict[str, Any]) -> str | None:
    """Returns the source of a subscription, None for all."""
    logical = _part(document, "logicalPartition")
    _check_partition("subs", "physicalPartition", _part(document, "physicalPartition"))
    _check_partition("subs", "logicalPartition", logical)
    source = _part(logical, "source")
    number, name = source.get("id", _ANY), source.get("name", _ANY_NAME)
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(name, str):
        raise MalformedRequest(f"subs: source is {json.dumps(source)}, without a number or a name; {_SUBS}")
    if number != _ANY:
        return str(number)
    return None if name == _ANY_NAME else name


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name, {})
    if not isinstance(part, dict):
        raise MalformedRequest(f"subs: {name} is {json.dumps(part)}, and no object; {_SUBS}")
    return part


def _check_partition(parameter: str, name: str, document: object) -> None:
    """Raises MalformedRequest if a partition is another one."""
    number = document.get("id", _ANY) if isinstance(document, dict) else None
    if isinstance(number, bool) or number not in (_PARTITION, _ANY):
        raise MalformedRequest(
            f"{parameter}: {name} is {json.dumps(document)}, and the journal is the partition {_PARTITION}"
        )


def _json(parameter: str, text: str, remedy: str) -> object:
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"{parameter}: it isn't JSON ({error}); {remedy}") from error
    return document
