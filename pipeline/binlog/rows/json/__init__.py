"""MySQL's binary JSON to the text that the server prints."""
