-- ALTER IGNORE drops rows that have the same key.
# 5.6 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 1), (3, 2)
~ rest
0> ALTER IGNORE TABLE `t` ADD UNIQUE KEY (`v`)
~ rest
