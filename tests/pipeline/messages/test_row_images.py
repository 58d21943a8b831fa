"""The description of each row image: the same fields in all messages."""

import numpy as np
import pyarrow as pa

from pipeline.messages.row_images import (
    IMAGE_FIELDS,
    SOURCE_TYPE,
    ImageKind,
    images_with,
    updates_of_keys,
)


def test_each_image_has_its_kind_transaction_ordinal_and_absent_columns() -> None:
    assert [(field.name, field.type) for field in IMAGE_FIELDS] == [
        ("kind", pa.int8()),
        ("transaction", pa.int32()),
        ("ordinal", pa.int32()),
        ("absent", pa.binary()),
        ("source", SOURCE_TYPE),
    ]
    assert [field.name for field in IMAGE_FIELDS if field.nullable] == ["absent", "source"]


def test_an_image_has_the_columns_that_it_does_not_lack() -> None:
    bitmaps = [None, b"\x01\x00", b"\x00\x00", b"\x03\x01", b"\x02\x00"]
    absent = pa.array(bitmaps, IMAGE_FIELDS.field("absent").type)
    assert images_with(absent, 0).tolist() == [True, False, True, False, True]
    assert images_with(absent.slice(1, 3), 1).tolist() == [True, True, False]
    assert images_with(absent, 8).tolist() == [True, True, True, False, True]
    assert images_with(absent, 2).all() and not len(images_with(absent[:0], 0))


def test_an_update_changes_the_key_if_its_images_have_other_ones_or_none() -> None:
    kinds = [ImageKind.INSERT, *3 * (ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER), ImageKind.DELETE]
    keys = pa.array([b"a", b"b", b"b", b"b", b"c", None, None, b"c"], pa.binary())
    assert updates_of_keys(np.array(kinds, np.int8), keys).tolist() == [3, 5]
    assert not len(updates_of_keys(np.array([ImageKind.INSERT], np.int8), keys[:1]))
