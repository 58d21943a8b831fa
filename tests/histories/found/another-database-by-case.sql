-- An ALTER of an uncaptured table dropped a column of one whose name differs by case.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE DATABASE `{DB}`
0> CREATE TABLE `{DB}`.`t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> ALTER TABLE `{DB}`.`t` DROP COLUMN `v`
~ rest
