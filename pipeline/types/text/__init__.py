"""Text in a character set of MySQL: its bytes as UTF-8, its code points, and which collation has which set."""
