-- Where clocks go back, a statement that copies a table makes one instant of two.
# 9.7 FULL all summer | local times
0> CREATE TABLE t (id INT NOT NULL PRIMARY KEY, at TIMESTAMP NULL, v INT)
0> SET SESSION time_zone = '+00:00'
0> INSERT INTO t VALUES (1, '2024-10-27 00:30:00', 1), (2, '2024-10-27 01:30:00', 2)
0> SET SESSION time_zone = SYSTEM
~ rest
0> ALTER TABLE t MODIFY v BIGINT
0> INSERT INTO t VALUES (3, '2024-10-27 02:30:00', 3)
~ rest
