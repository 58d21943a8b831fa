-- Somebody sets a table of the lake back by RESTORE. Delta still says of it that it has what came later.
# 9.7 FULL all | restored
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1, 1), (2, 2)
~ rest
0> UPDATE t SET v = 3 WHERE id = 1
~ rest
0> INSERT INTO t VALUES (3, 3)
~ rest
~ restore table
0> UPDATE t SET v = 5 WHERE id = 2
~ rest
