-- An older copy of the journal takes its place, and the lake has what it lacks.
# 9.7 FULL all | older
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1, 1), (2, 2)
~ rest
~ kill service
0> UPDATE t SET v = 3
~ rest
0> UPDATE t SET v = 4
~ rest
~ older journal
0> INSERT INTO t VALUES (3, 3)
~ caught up
0> UPDATE t SET v = 5 WHERE id = 1
~ rest
