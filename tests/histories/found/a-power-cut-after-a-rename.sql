-- A power cut comes after a statement that brought no row.
# 9.7 FULL all | renamed
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1, 1), (2, 2)
~ rest
0> ALTER TABLE t RENAME COLUMN v TO w
~ rest
~ power cut
0> INSERT INTO t VALUES (3, 3)
~ rest
