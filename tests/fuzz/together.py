"""Row images of several tables in one buffer, damaged: decoded together, they are what each is alone."""

import random
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from pipeline.binlog.rows.row_events import OrderedImages, images_of_events, images_of_tables
from pipeline.errors import Definite
from pipeline.messages.row_images import TableImages, TableUnreadable
from pipeline.types.buffers import SLACK
from tests.fuzz.rows import RowsCase, Tables, located, rows_case, shown


@dataclass(frozen=True, slots=True)
class TogetherCase:
    """The tables, each with its events."""

    events: tuple[RowsCase, ...]


def together_case(of: Tables, seed: int) -> TogetherCase:
    """The case of this seed: most of its tables are whole."""
    rng = random.Random(seed)
    return TogetherCase(
        tuple(
            rows_case(of, rng.randrange(2**32)) if rng.random() < 0.1 else rng.choice(of)
            for _ in range(rng.choice((1, 2, 5, 20)))
        )
    )


def together_told(case: TogetherCase) -> int:
    """Checks that each table's images are the same alone; returns how many tables could be located."""
    buffer = np.frombuffer(bytearray(b"".join(each.bytes for each in case.events) + bytes(SLACK)), np.uint8)
    found: list[OrderedImages] = []
    begin = 0
    for each in case.events:
        with suppress(Definite):  # which a table says before anything is decoded
            found.append(located(each, buffer, begin))
        begin += len(each.bytes)
    together = images_of_tables(found)
    for images, decoded in zip(found, together, strict=True):
        alone, told = _alone(images), _told(decoded)
        assert told == alone, f"decoded with other tables\n{told}\nand alone\n{alone}"
    return len(found)


def _alone(images: OrderedImages) -> tuple[str, int]:
    try:
        return _told(images_of_events(*images))
    except Definite as error:
        return str(error), 0


def _told(decoded: TableImages | TableUnreadable) -> tuple[str, int]:
    return (shown(decoded), decoded.bytes) if isinstance(decoded, TableImages) else (decoded.reason, 0)
