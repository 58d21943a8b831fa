-- A table with two unique keys that are alike ended the service.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE TABLE `u` (`a` INT NOT NULL, `b` INT NOT NULL, UNIQUE (`a`, `b`), UNIQUE (`b`, `a`))
0> INSERT INTO `u` VALUES (1, 2)
~ caught up
0> INSERT INTO `t` VALUES (4, 4)
~ rest
