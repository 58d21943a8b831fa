-- LIKE and REFERENCES stopped the table that they refer to.
# 9.7 MINIMAL all calm
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE TABLE `u` LIKE `t`
0> CREATE TABLE `child` (`id` INT NOT NULL PRIMARY KEY, `p` INT, FOREIGN KEY (`p`) REFERENCES `t` (`id`))
0> INSERT INTO `child` VALUES (1, 1)
0> INSERT INTO `t` VALUES (4, 4)
0> ALTER TABLE `t` ADD COLUMN `w` INT
0> INSERT INTO `t` VALUES (5, 5, 5)
~ rest
