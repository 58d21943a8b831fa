"""The journal's files, local or in an object store."""
