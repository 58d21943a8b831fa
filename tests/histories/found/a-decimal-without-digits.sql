-- DECIMAL(0) is DECIMAL(10, 0). The service ended, and at each start again.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
~ rest
0> ALTER TABLE `t` ADD COLUMN `d` DECIMAL(0) NOT NULL, ADD COLUMN `e` DECIMAL(0, 0) DEFAULT 7
0> INSERT INTO `t` (`id`) VALUES (3)
~ rest
