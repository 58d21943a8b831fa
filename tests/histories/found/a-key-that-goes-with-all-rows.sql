-- A table that had been emptied lost its key. With a catalog the service ended.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
0> INSERT INTO `u` VALUES (1)
~ rest
0> DROP TABLE `t`
~ rest
0> CREATE TABLE `t` (`id` INT NOT NULL, `v` INT)
0> INSERT INTO `t` VALUES (3, 3), (3, 3)
0> INSERT INTO `u` VALUES (2)
~ rest
0> TRUNCATE TABLE `t`
~ rest
0> INSERT INTO `t` VALUES (4, 4)
0> ALTER TABLE `t` ADD PRIMARY KEY (`id`)
~ rest
