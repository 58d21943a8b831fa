"""What is said of each row image, in columns beside the image's own.

That's its kind (`inboxes.Kind`), the index of its transaction in the slice, its ordinal in that transaction (counted
over all captured tables, from 0, one for each image), and the columns that the log doesn't give (with
binlog_row_image MINIMAL or NOBLOB), whose values in the image are null and mean nothing. What an update's after image
leaves out it has from its before image, where that has it.
"""

from typing import Final

import pyarrow as pa

# As the log is read. `absent` is null where all columns are there, and else a bitmap: bit i % 8 of byte i // 8 is set
# where column i is absent.
IMAGE_FIELDS: Final = pa.schema(
    [
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("transaction", pa.int32(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("absent", pa.binary()),
    ]
)

# With the names of the columns that are absent; null where all are there.
CHANGE_FIELDS: Final = IMAGE_FIELDS.set(
    IMAGE_FIELDS.get_field_index("absent"), pa.field("absent", pa.list_(pa.string()))
)
