"""Which part of a batch a table's lake tables can take, and with which schema.

A *batch* is a run of segments, (after, through]. The sink delivers it to each table completely before the next batch
begins. In each table it is one commit, which records `after`: all tables have everything through there. So a restart
continues from the greatest `after` that it finds, and skips what a table already has. Nothing else is stored.

**Generations.** A mirror may begin again (`pipeline.snapshot.checkpoint.Mirror`). Only the last generation of a batch
counts. One commit empties the mirror, gives it the generation's columns and names the generation, before anything else
of the batch arrives. From then on the live view counts only changes after the generation's SCN. The changelog has none
of them yet, so the view shows the mirror at its beginning. That is later than what it showed before, and never wrong. A
segment's rows of first snapshots belong to the generation in its checkpoint (`pipeline.journal.segment`). Rows of an
older generation are left out.

**Schemas.** The effect of a statement on columns comes before all rows of its segment (`pipeline.journal.segment`), and
a batch ends before such a segment. So a column's name means one column within a batch. The lake tables get the schema
that the batch needs before any of its rows (`pipeline.lake.tables.column_changes`). The changelog and the mirror get it
each in one commit that names its segment. After a failure between the two, each continues from its own report. Rows
that are only to be compared bring a schema too, if the table has it at their segment's end: a statement may have no
change after it, and rows can be compared only under the schema that they have. Within a generation, the mirror takes a
new schema only if its rows can stay as they are (`pipeline.schema.compatibility`).

**Types by rule.** The journal has each column in its usual form. The schemas of an accepted batch have the forms of the
lake (`pipeline.types.lake_forms`). A generation begins with the forms that the rules want. Within it a column keeps its
form, whatever the rules are by now (`pipeline.config.lake_types`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.config.lake_types import LakeTypeRule, form_by_rules, keep_forms, refused_types
from pipeline.config.table_rules import SchemaChanges
from pipeline.lake.batch import Batch, Generation, LakeTableState, Piece, Pieces, is_newer, missing_pieces
from pipeline.lake.files.value_conversion import ValueRefused, form_constant
from pipeline.lake.tables.column_changes import (
    COLUMNS_REMEDY,
    ColumnPlan,
    Incompatible,
    Step,
    follow_steps,
    has_common_types,
    unchanged_plan,
)
from pipeline.lake.tables.tier import Tier
from pipeline.schema.compatibility import incompatibility
from pipeline.schema.ddl.alter_table import Alteration, alteration_of
from pipeline.schema.table_schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class AcceptedBatch:
    """The part of a batch that a table's lake tables can take: everything `through` a segment.

    `schema`: the one that they get first, None if no table is created. `since`: the segment that it came with. `steps`
    lead to it from their present schema, and `plan` is the changelog's. `generation`: the mirror's, None if none is
    created. `partial`: whether changes may lack columns. `reason`: why the part ends before the batch does, empty if it
    doesn't.
    """

    pieces: Pieces
    schema: TableSchema | None
    since: int
    steps: tuple[Step, ...]
    plan: ColumnPlan
    generation: int | None
    through: int
    partial: bool
    reason: str = ""

    def until(self, refused: ValueRefused) -> "AcceptedBatch":
        """Returns the part of it before the segment that brought a value which the lake can't have."""
        segment = refused.segment
        return replace(
            self, pieces=_before(self.pieces, segment), through=segment - 1, reason=_stop(segment, refused)
        )


def accept_batch(
    delivered: LakeTableState,
    table: TableId,
    batch: Batch,
    rule: SchemaChanges = SchemaChanges.APPLY,
    types: tuple[LakeTypeRule, ...] = (),
) -> AcceptedBatch:
    """Returns how far a table can be delivered by its rules, and which of its files it lacks. `types`: the rules for
    types of columns.

    A segment is taken completely or not at all. So every version in the segment that the present schema came with was
    accepted, and so was every version before.
    """
    if (reason := batch.cut_off.get(table)) is not None:
        return _nothing(delivered, batch, reason)
    pieces, back = missing_pieces(delivered, table, batch), batch.resumed(table, delivered)
    begins = 0 if back is None else back.segment
    begun = batch.generations.get(table, ()) if back is None else (back,)
    generations = {each.segment: each for each in begun}
    altered = tuple(step for step in batch.alterations.get(table, ()) if step.segment >= begins)
    partial = {piece.segment for piece in pieces.changes if piece.absent}
    taken = replace(_nothing(delivered, batch), pieces=pieces, schema=delivered.schema, through=batch.through)
    for segment in sorted({*_with_files(pieces, begins), *generations, *(step.segment for step in altered)}):
        try:
            known = segment <= delivered.since
            after = replace(taken, partial=taken.partial or segment in partial)
            for step in altered:
                if step.segment == segment:
                    after = _apply_alteration(after, _formed_step(step, types), rule, known)
            after, generation = _formed_segment(after, segment, generations.get(segment), types, known)
            versions = _versions(after.pieces).get(segment, [])
            taken = _take_segment(after, segment, versions, generation, rule, known)
            taken = _take_verified(taken, segment, types, rule, known)
        except (Incompatible, ValueRefused) as error:
            before = _before(taken.pieces, segment)
            taken = replace(taken, pieces=before, through=segment - 1, reason=_stop(segment, error))
            break
    return replace(taken, pieces=_of_generation(taken, batch, table))


def _nothing(delivered: LakeTableState, batch: Batch, reason: str = "") -> AcceptedBatch:
    """Returns what a table takes that gets nothing more. It creates and alters nothing."""
    plan = unchanged_plan(delivered.columns, delivered.schema)
    generation, partial = delivered.generation, delivered.partial
    return AcceptedBatch(Pieces(), None, delivered.since, (), plan, generation, batch.after, partial, reason)


def _with_files(pieces: Pieces, begins: int) -> set[int]:
    """Returns the segments with files to take or, from where the table `begins`, to compare."""
    compared = (piece for piece in pieces.verified if piece.latest and piece.segment >= begins)
    return {piece.segment for piece in (*pieces.changes, *pieces.rows, *compared)}


def _before(pieces: Pieces, segment: int) -> Pieces:
    """Returns the files of earlier segments, without those that are only to be compared."""
    return Pieces(
        tuple(piece for piece in pieces.changes if piece.segment < segment),
        tuple(piece for piece in pieces.rows if piece.segment < segment),
    )


def _stop(segment: int, error: Exception) -> str:
    return f"from segment {segment} on: {error}"


def _formed_segment(
    taken: AcceptedBatch,
    segment: int,
    generation: Generation | None,
    types: tuple[LakeTypeRule, ...],
    known: bool,
) -> tuple[AcceptedBatch, Generation | None]:
    """Returns the batch and the generation in which a segment's schemas have the forms of the lake.

    A generation that begins has those that the rules want, unless the changelog has got others for it already.
    """
    if not types and not (taken.schema is not None and taken.schema.formed):
        return taken, generation
    if generation is not None and (why := refused_types(types, generation.schema)) is not None:
        raise Incompatible(why)
    begins = generation is not None and is_newer(generation, taken.generation) and not known
    present = None if begins else taken.schema

    def formed(schema: TableSchema) -> TableSchema:
        return form_by_rules(types, schema) if present is None else keep_forms(types, schema, present)

    pieces = Pieces(
        _formed_pieces(taken.pieces.changes, segment, formed),
        _formed_pieces(taken.pieces.rows, segment, formed),
    )
    taken = replace(taken, pieces=replace(pieces, verified=taken.pieces.verified))
    return taken, None if generation is None else replace(generation, schema=formed(generation.schema))


def _formed_pieces(
    pieces: tuple[Piece, ...], segment: int, formed: Callable[[TableSchema], TableSchema]
) -> tuple[Piece, ...]:
    return tuple(
        replace(piece, schema=formed(piece.schema)) if piece.segment == segment else piece for piece in pieces
    )


def _formed_step(step: Step, types: tuple[LakeTypeRule, ...]) -> Step:
    """Returns a step in which new columns and their constants have the forms of the lake. Raises ValueRefused."""
    if not types or not isinstance(step.change, Alteration):
        return step
    changes, schema = step.change.changes, form_by_rules(types, step.change.schema)
    forms = {column.name: column for column in schema.columns}
    added = tuple(
        replace(each, column=column, value=form_constant(each.value, column, schema, step.segment))
        for each in changes.added
        for column in (forms.get(each.column.name, each.column),)
    )
    return replace(step, change=replace(step.change, schema=schema, changes=replace(changes, added=added)))


def _versions(pieces: Pieces) -> dict[int, list[TableSchema]]:
    """Returns the schemas of a table's files, by segment, in the order of the stream."""
    found: dict[int, list[TableSchema]] = {}
    for piece in sorted((*pieces.changes, *pieces.rows), key=lambda piece: (piece.segment, piece.place)):
        versions = found.setdefault(piece.segment, [])
        if piece.schema not in versions:
            versions.append(piece.schema)
    return found


def _of_generation(taken: AcceptedBatch, batch: Batch, table: TableId) -> Pieces:
    """Returns the files with only those rows that are of the mirror's generation: none if it is later than all of the
    batch.

    Rows to be compared have the forms of the lake too.
    """
    begins = (each.segment for each in batch.generations.get(table, ()) if each.since == taken.generation)
    first = next(begins, batch.through + 1)
    rows = tuple(piece for piece in taken.pieces.rows if piece.segment >= first)
    verified = taken.pieces.verified
    if taken.schema is not None and taken.schema.formed:
        verified = tuple(
            replace(piece, schema=keep_forms((), piece.schema, taken.schema)) for piece in verified
        )
    return replace(taken.pieces, rows=rows, verified=verified)


def _apply_alteration(taken: AcceptedBatch, step: Step, rule: SchemaChanges, known: bool) -> AcceptedBatch:
    """Applies the effect of a statement on columns, before a segment's rows. Raises Incompatible."""
    if taken.schema is None or not isinstance(step.change, Alteration):
        return taken
    changes = step.change.changes
    if not known and taken.partial and changes.renamed:
        raise Incompatible(_PARTIAL.format(old=changes.renamed[0][0], table=taken.schema.table))
    done = [f"column {old!r} was renamed {new!r}" for old, new in changes.renamed]
    done += [f"column {name!r} was dropped" for name in changes.dropped]
    if rule is SchemaChanges.REFUSE:
        done += [f"column {each.column.name!r} was added" for each in changes.added]
    if done and not known and rule is not SchemaChanges.APPLY:
        raise Incompatible(
            _RULED_OUT.format(what=" and ".join(done), table=taken.schema.table, rule=rule.value)
        )
    # Columns that came before it without a row come with the next schema. The statement's schema may have them already.
    after = alteration_of(taken.schema, changes, step.change.statement)
    return _add_step(taken, step, taken.schema if after is None else after.schema, known=known)


def _take_segment(
    taken: AcceptedBatch,
    segment: int,
    versions: list[TableSchema],
    generation: Generation | None,
    rule: SchemaChanges,
    known: bool,
) -> AcceptedBatch:
    """Applies a segment with files of these versions, and perhaps a new generation. Raises Incompatible."""
    begun = generation if generation is not None and is_newer(generation, taken.generation) else None
    if begun is not None:
        taken = replace(taken, generation=begun.since)
        versions = [*(version for version in versions if version != begun.schema), begun.schema]
    for version in versions:
        if not known:
            if taken.schema is not None and taken.schema.version == version.version:
                continue
            if begun is None and taken.generation is not None and taken.schema is not None:
                _check_compatible(taken.schema, version)
            _check_rule(taken, version, rule)
        # No row of before a generation counts for it, whatever types its columns had in the segment.
        begins = begun is not None and (
            version == begun.schema or not has_common_types(taken.plan, Tier.CHANGELOG, version)
        )
        taken = _add_step(taken, Step(segment, version, begins), version, known=known)
    return taken


def _take_verified(
    taken: AcceptedBatch, segment: int, types: tuple[LakeTypeRule, ...], rule: SchemaChanges, known: bool
) -> AcceptedBatch:
    """Applies the schema of a segment's rows to be compared, if the lake can take it. If not, they aren't compared."""
    present = taken.schema
    verified = [piece.schema for piece in taken.pieces.verified if piece.segment == segment and piece.latest]
    if present is None or not verified:
        return taken
    formed = keep_forms(types, verified[0], present) if types or present.formed else verified[0]
    try:
        return _take_segment(taken, segment, [formed], None, rule, known)
    except Incompatible:
        return taken


def _add_step(taken: AcceptedBatch, step: Step, schema: TableSchema, *, known: bool) -> AcceptedBatch:
    """Adds a step. If it is `known`, the changelog has made it already, and the mirror perhaps not."""
    steps = (*taken.steps, step)
    if known:
        return replace(taken, steps=steps)
    plan = follow_steps(taken.plan, Tier.CHANGELOG, [step])
    return replace(taken, steps=steps, plan=plan, schema=schema, since=step.segment)


def _check_compatible(present: TableSchema, new: TableSchema) -> None:
    if why := incompatibility(present, new):
        raise Incompatible(f"{why}: {COLUMNS_REMEDY.format(table=new.table)}")


def _check_rule(taken: AcceptedBatch, new: TableSchema, rule: SchemaChanges) -> None:
    """Raises Incompatible if the table's rule excludes this schema from its lake tables."""
    if taken.schema is None or rule is SchemaChanges.APPLY:
        return
    alike = keep_forms((), new, taken.schema)  # whatever the rules for types want now
    after = follow_steps(taken.plan, Tier.CHANGELOG, [Step(taken.since, alike)])
    gone = taken.plan.present - after.present
    if gone or (rule is SchemaChanges.REFUSE and after.columns != taken.plan.columns):
        what = f"{', '.join(sorted(gone))} went" if gone else "columns were added or widened"
        raise Incompatible(_RULED_OUT.format(what=what, table=new.table, rule=rule.value))


_PARTIAL = (
    "column {old!r} of {table} was renamed, and changes that lack columns name these; set "
    "binlog_row_image=FULL on the source"
)
_RULED_OUT = "{what} in {table}, and lake.rules has schema_changes = {rule!r} for it: give it another rule"
