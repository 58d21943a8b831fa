"""What the ChunkSelector reads with."""
