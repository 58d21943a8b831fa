-- Tables that were created while a snapshot was under way ended the service by a metric.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `t_new` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t_new` VALUES (1, 10), (2, 20), (3, 30)
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `u` VALUES (1, 1), (2, 2), (3, 3)
~ rest
