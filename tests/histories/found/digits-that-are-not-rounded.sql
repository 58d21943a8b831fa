-- MySQL keeps the values of a DOUBLE that becomes a DOUBLE(10,2), and shows them rounded. The snapshot that follows ends before the greatest key.
# 9.7 FULL all | digits
0> CREATE TABLE t (id DOUBLE NOT NULL PRIMARY KEY, v INT)
0> INSERT INTO t VALUES (1.23456, 1), (0.1, 2), (0, 3)
~ rest
0> ALTER TABLE t MODIFY id DOUBLE(10,2) NOT NULL
~ rest
