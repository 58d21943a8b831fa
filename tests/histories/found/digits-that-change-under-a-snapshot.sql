-- Rows of keys that the server shows alike change while a snapshot reads them, and are read by their keys (MINIMAL images).
# 9.7 MINIMAL all | digits
0> CREATE TABLE t (id DOUBLE NOT NULL, n FLOAT NOT NULL, v INT, w INT, PRIMARY KEY (id, n))
0> CREATE TABLE s (id DOUBLE NOT NULL PRIMARY KEY, v INT, w INT)
0> INSERT INTO t VALUES (1.2301, 0.11, 1, 0), (1.2302, 0.12, 2, 0), (1.2302, 0.13, 3, 0), (1.2349, 0.1, 4, 0), (9.999, 7.77, 5, 0), (1e9, 1, 6, 0)
0> INSERT INTO s VALUES (1.2301, 1, 0), (1.2302, 2, 0), (1.2303, 3, 0), (1.2349, 4, 0), (9.999, 5, 0), (1e9, 6, 0), (-7.0001, 7, 0), (-7.0002, 8, 0)
~ rest
0> ALTER TABLE t MODIFY id DOUBLE(6,2) NOT NULL, MODIFY n FLOAT(6,1) NOT NULL
0> ALTER TABLE s MODIFY id DOUBLE(6,2) NOT NULL
~ rest
~ signal execute
0> SET binlog_row_image = MINIMAL
0> UPDATE t SET v = v + 10 WHERE id + 0e0 > 1.2301
0> UPDATE s SET v = v + 10 WHERE id + 0e0 > 1.2301
~ 5 ms
0> DELETE FROM t WHERE v = 13
0> DELETE FROM s WHERE v = 13
0> UPDATE s SET id = 7.125 WHERE v = 14
0> INSERT INTO s VALUES (1.2402, 9, 9), (1.2502, 10, 10)
0> UPDATE t SET v = 20 WHERE v = 16
~ rest
~ signal execute
0> UPDATE s SET v = v + 1
0> UPDATE t SET v = v + 1
~ rest
~ new journal
~ rest
