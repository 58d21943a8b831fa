-- Statements one after another stopped their table where no schema was proven in between.
# 9.7 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> ALTER TABLE `t` ADD COLUMN `x` INT
0> INSERT INTO `t` VALUES (4, 4, 4)
0> ALTER TABLE `t` ADD COLUMN `y` INT
0> INSERT INTO `t` VALUES (5, 5, 5, 5)
~ rest
