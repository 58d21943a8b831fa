-- A table that went and came back with other rows kept none of them.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `t_new` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t_new` VALUES (1, 10), (2, 20), (3, 30)
~ rest
0> RENAME TABLE `t` TO `t_old`
~ caught up
0> RENAME TABLE `t_new` TO `t`
0> INSERT INTO `t` VALUES (4, 40)
~ rest
