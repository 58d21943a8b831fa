-- A BLACKHOLE table has rows in the log and none in itself.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY, `v` INT) ENGINE=BLACKHOLE
0> INSERT INTO `u` VALUES (1, 1)
~ rest
