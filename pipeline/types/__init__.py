"""MySQL's column types: their Arrow forms, character sets, and compiled kernels over bytes and values."""
