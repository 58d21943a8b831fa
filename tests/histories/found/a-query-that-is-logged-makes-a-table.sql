-- CREATE TABLE … SELECT was logged as a statement. The table stayed empty.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
0> CREATE TABLE `u` LIKE `t`
0> INSERT INTO `u` VALUES (3, 3)
~ rest
0> DROP TABLE `t`
~ caught up
0> SET SESSION binlog_format = STATEMENT
0> CREATE TABLE `t` (PRIMARY KEY (`id`)) AS SELECT * FROM `u`
~ rest
