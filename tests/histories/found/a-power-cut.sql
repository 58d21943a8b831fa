-- A power cut takes all of the journal that isn't synced.
# 9.7 FULL all | power
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1, 1), (2, 2)
~ caught up
0> UPDATE t SET v = 3
~ caught up
~ power cut
0> UPDATE t SET v = 4 WHERE id = 1
~ rest
~ power cut
0> ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7
0> DELETE FROM t WHERE id = 2
~ rest
