-- A session that logs statements altered its temporary table. Columns and rows of the one that it hides were lost.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
0> CREATE TABLE `u` LIKE `t`
0> INSERT INTO `u` VALUES (1, 1)
~ rest
0> SET SESSION binlog_format = STATEMENT
0> CREATE TEMPORARY TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> TRUNCATE TABLE `t`
0> CREATE TEMPORARY TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> ALTER TABLE `u` DROP COLUMN `v`
~ rest
