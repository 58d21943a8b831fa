"""What the ChunkSelector reads with, and what is measured of snapshots."""
