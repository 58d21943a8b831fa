-- A table with a column called __op ended the service.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `__op` CHAR(1))
0> INSERT INTO `u` VALUES (1, 'c')
~ caught up
0> INSERT INTO `t` VALUES (4, 4)
~ rest
