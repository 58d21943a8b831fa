-- Columns with constant defaults had the table read again.
# 9.7 FULL all calm
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> ALTER TABLE `t` ADD COLUMN `a` INT NOT NULL DEFAULT 7
0> UPDATE `t` SET `a` = 8 WHERE `id` = 1
0> ALTER TABLE `t` ADD COLUMN `b` VARCHAR(20) DEFAULT 'new', ADD COLUMN `c` DECIMAL(10,2) NOT NULL
0> UPDATE `t` SET `b` = NULL WHERE `id` < 3
~ rest
