"""The oracle of the demo, the chaos runs and the random histories: does a copy equal its source, and each change?

- `forms` gives each value one form, whether the source, a journal or a lake has it.
- `source` has a server write a table to a file by itself, and reads that in these forms.
- `tables` compares two tables by their keys and counts.
- `changes` compares a changelog with the tally of whoever wrote the changes.

It uses no code of the product that decodes or stores a value.
"""
