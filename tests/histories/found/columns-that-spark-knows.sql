-- Columns with the names of a query's aliases, or of a column of Spark's own, broke each merge.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `m` INT, `c` INT)
0> INSERT INTO `t` VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `_metadata` INT)
0> INSERT INTO `u` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> UPDATE `t` SET `m` = 9, `c` = 8 WHERE `id` = 1
0> UPDATE `u` SET `_metadata` = 9 WHERE `id` = 1
~ rest
