-- MySQL 5.6 logs all MEMORY tables that one statement finds empty, and what it creates, after one GTID.
# 5.6 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT) ENGINE=MEMORY
0> CREATE TABLE `u` LIKE `t`
0> CREATE TABLE `w` LIKE `t`
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> INSERT INTO `u` VALUES (1, 1), (2, 2), (3, 3)
0> INSERT INTO `w` VALUES (1, 1), (2, 2), (3, 3)
~ rest
~ restart server
0> SELECT COUNT(*) FROM `t`, `u`
0> CREATE TABLE `new` LIKE `w`
~ rest
