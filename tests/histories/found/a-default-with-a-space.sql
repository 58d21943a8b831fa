-- The space isn't in the column.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
~ rest
0> ALTER TABLE `t` ADD COLUMN `c` CHAR(5) DEFAULT 'b '
~ rest
