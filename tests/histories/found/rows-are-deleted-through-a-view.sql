-- A session that logs statements deleted all rows of a view, and by a trigger. They stayed.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
0> CREATE TABLE `u` LIKE `t`
0> INSERT INTO `u` VALUES (3, 3)
0> CREATE VIEW `w` AS SELECT * FROM `t`
0> CREATE TRIGGER `gone` AFTER DELETE ON `t` FOR EACH ROW DELETE FROM `u`
~ rest
0> SET SESSION binlog_format = STATEMENT
0> DELETE FROM `w`
~ rest
