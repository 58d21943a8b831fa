-- Another pipeline captures the same tables, with the same server_id, and would deliver into the same lake.
# 9.7 FULL all | beside
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1, 1), (2, 2)
~ rest
~ other pipeline
0> UPDATE t SET v = 3
~ rest
