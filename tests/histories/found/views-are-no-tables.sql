-- A view was taken for a captured table.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE VIEW `v` AS SELECT * FROM `t`
0> INSERT INTO `t` VALUES (4, 4)
~ rest
~ restart service
0> INSERT INTO `t` VALUES (5, 5)
~ rest
