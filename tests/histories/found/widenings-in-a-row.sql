-- Strict widenings of several tables had all but the first read again.
# 9.7 FULL all calm
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `u` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> ALTER TABLE `t` MODIFY `v` BIGINT
0> ALTER TABLE `u` MODIFY `v` BIGINT
~ rest
