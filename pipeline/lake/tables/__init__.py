"""The lake's tables: their paths, columns and properties, how their columns change, and when they are maintained.

Each captured table becomes two. The *changelog* takes every change, with the journal's meta columns. The *mirror* has
the table's own columns and equals the source at an older position. It gets its first snapshot as appended rows, and
from then on merges of many changes at a time (`pipeline.lake.mirrors.merge`). Readers see both together
(`pipeline.lake.live_view`).
"""
