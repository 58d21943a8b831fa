"""What lies beside the lake until verifications are judged.

LAKE/_tidemark/verifying/database/table/rows/   files of the journal that aren't compared yet
LAKE/_tidemark/verifying/database/table/keys/   the keys in those that are, by verification and segment
LAKE/_tidemark/verifying/database/table/changed/   while a comparison runs: the changes, and the rows of their keys
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from actors.lake.files.file_placement import LakeFiles
from actors.lake.filesystem import lake_filesystem, remove_folder
from actors.runtime.filesystem import list_folder
from pipeline.lake.batch import Piece
from pipeline.lake.tables.paths import verified_path
from pipeline.lake.verification.runs import VerificationRun
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file that isn't compared yet."""

    version: str
    path: str
    name: str


class HeldFiles:
    """What verifications of the tables under `root` have read."""

    def __init__(self, root: str, files: LakeFiles) -> None:
        self._root = root
        self._files = files

    def hold(self, table: TableId, pieces: Sequence[Piece]) -> None:
        """Places a table's files to be compared. Raises as `LakeFiles.place` does."""
        if pieces:
            self._files.hold(self.rows_folder(table), pieces)

    def files(self, table: TableId, through: int | None = None) -> list[HeldFile]:
        """Returns the files of a table that aren't compared yet, up to a segment."""
        folder, found = self.rows_folder(table), []
        for name in _listed(folder):
            segment, _, rest = name.partition("-")
            if (
                segment.isdecimal()
                and name.endswith(".parquet")
                and (through is None or int(segment) <= through)
            ):
                found.append(HeldFile(rest.partition("-")[0], f"{folder}/{name}", name))
        return found

    def keys(self, run: VerificationRun) -> list[str]:
        """Returns the paths of the keys that a verification's comparisons have written."""
        folder = self.keys_folder(run)
        return [f"{folder}/{name}" for name in _listed(folder)]

    def remove_files(self, table: TableId, held: Sequence[HeldFile]) -> None:
        """Removes files that are compared."""
        lake, folder = lake_filesystem(self.rows_folder(table))
        for file in held:
            lake.delete_file(f"{folder}/{file.name}")

    def remove_keys(self, run: VerificationRun) -> None:
        """Removes the keys of a verification that is judged."""
        remove_folder(*lake_filesystem(self.keys_folder(run)))

    def rows_folder(self, table: TableId) -> str:
        """Returns the folder of a table's files."""
        return self._folder(table, "rows")

    def changed_folder(self, table: TableId) -> str:
        """Returns the folder of what a comparison needs while it runs."""
        return self._folder(table, "changed")

    def keys_folder(self, run: VerificationRun) -> str:
        """Returns the folder of the keys of a verification of a table."""
        return f"{self._folder(run.table, 'keys')}/{digest_of(run.run)}"

    def _folder(self, table: TableId, what: str) -> str:
        return f"{verified_path(self._root, table)}/{what}"


def digest_of(text: str) -> str:
    """Returns a name for a text that may have any characters."""
    return sha256(text.encode()).hexdigest()[:32]


def _listed(folder: str) -> list[str]:
    lake, inside = lake_filesystem(folder)
    return sorted(info.base_name for info in list_folder(lake, inside))
