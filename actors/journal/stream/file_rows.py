"""Reads the journal's files for a stream, in an executor.

An executor has pyarrow and this package, and it needs to import little of it. It opens the files where the journal is:
on a disk that it shares with the service, or in an object store.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from actors.journal.batch_sizes import rows_at_once
from actors.journal.files import journal_errors, open_files
from pipeline.errors import Definite
from pipeline.journal.changes.row_choice import CHOSEN_BY, choose_rows
from pipeline.lake.stream.change_file import ChangeFile
from pipeline.lake.stream.table_rows import read_columns, shape_rows

# How many rows Spark gets at once, at most, and about how many bytes. Rows of small files come together. A column of
# texts has room for 2 GiB, and few compressed bytes may have more.
ROWS_TOGETHER: Final = 1 << 16
BYTES_TOGETHER: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a journal's files, with the columns of a stream of one or of `several` tables."""

    journal: str
    wanted: pa.Schema
    several: bool

    def read(self, files: Iterable[ChangeFile]) -> Iterator[pa.RecordBatch]:
        """Returns the rows of these files, in their order. Raises Definite if one is gone or damaged."""
        place = open_files(self.journal)
        gathered: list[pa.RecordBatch] = []
        count, size = 0, 0
        for file in files:
            for rows in self._of(place.filesystem, place.shown, file):
                own = rows.nbytes
                if gathered and (count + rows.num_rows > ROWS_TOGETHER or size + own > BYTES_TOGETHER):
                    yield _one(gathered)
                    gathered, count, size = [], 0, 0
                gathered.append(rows)
                count, size = count + rows.num_rows, size + own
        if gathered:
            yield _one(gathered)

    def _of(self, filesystem: pa.fs.FileSystem, shown: str, file: ChangeFile) -> Iterator[pa.RecordBatch]:
        with journal_errors(shown), _naming(file), filesystem.open_input_file(file.path) as opened:
            parquet = pq.ParquetFile(opened)
            names = read_columns(parquet.schema_arrow, self.wanted, file.table, several=self.several)
            wanted = [*dict.fromkeys((*names, *(CHOSEN_BY if file.choice else ())))]
            together = rows_at_once(parquet, ROWS_TOGETHER, BYTES_TOGETHER)
            # The other core has a task of its own.
            for rows in parquet.iter_batches(together, columns=wanted, use_threads=False):
                chosen = choose_rows(rows, file.choice) if file.choice else rows
                yield shape_rows(chosen, self.wanted, file.table, several=self.several)


@contextmanager
def _naming(file: ChangeFile) -> Iterator[None]:
    """Names the file that is gone or damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise Definite(
            f"{file.path} is gone: retention has removed segment {file.segment} while it was read. Start the stream "
            "again; it says what is missing. The option consumer keeps segments for a stream"
        ) from error
    except pa.ArrowInvalid as error:
        raise Definite(
            f"{file.path} can't be used ({error}): restore it from a copy of the journal"
        ) from error


def _one(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    return rows[0] if len(rows) == 1 else pa.concat_batches(rows)
