"""The description of each row image: the same fields in all messages."""

import pyarrow as pa

from pipeline.messages.row_images import CHANGE_FIELDS, IMAGE_FIELDS, SOURCE_TYPE, images_with


def test_each_image_has_its_kind_transaction_ordinal_and_absent_columns() -> None:
    assert [(field.name, field.type) for field in IMAGE_FIELDS] == [
        ("kind", pa.int8()),
        ("transaction", pa.int32()),
        ("ordinal", pa.int32()),
        ("absent", pa.binary()),
        ("source", SOURCE_TYPE),
    ]
    assert [field.name for field in IMAGE_FIELDS if field.nullable] == ["absent", "source"]


def test_a_change_names_its_absent_columns_and_says_the_rest_alike() -> None:
    assert CHANGE_FIELDS.names == IMAGE_FIELDS.names
    assert CHANGE_FIELDS.field("absent").type == pa.list_(pa.string())
    others = [name for name in IMAGE_FIELDS.names if name != "absent"]
    assert [CHANGE_FIELDS.field(name) for name in others] == [IMAGE_FIELDS.field(name) for name in others]


def test_an_image_has_the_columns_that_it_does_not_lack() -> None:
    absent = pa.array([None, ["a"], [], ["b", "a"], ["b"]], CHANGE_FIELDS.field("absent").type)
    assert images_with(absent, "a").tolist() == [True, False, True, False, True]
    assert images_with(absent.slice(1, 3), "b").tolist() == [True, True, False]
    assert images_with(absent, "c").all() and not len(images_with(absent[:0], "a"))
