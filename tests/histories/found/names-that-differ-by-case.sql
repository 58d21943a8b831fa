-- Statements about tables and databases that are not there emptied those whose names differ by case.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `straße` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `straße` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> DROP TABLE IF EXISTS `T`
0> DROP TABLE IF EXISTS `strasse`
0> DROP DATABASE IF EXISTS `{DB}`
~ rest
