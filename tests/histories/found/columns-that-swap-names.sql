-- After an ALTER the log has the same types in other columns, and doesn't name them.
# 9.7 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `a` INT, `b` INT)
0> INSERT INTO `t` VALUES (1, 1, 2)
~ rest
0> ALTER TABLE `t` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`
0> INSERT INTO `t` (`id`, `a`, `b`) VALUES (2, 3, 4)
~ rest
