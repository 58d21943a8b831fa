"""The commands of `tidemark`, each with what it does, by whom they are for."""
