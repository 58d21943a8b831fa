-- A table that had stopped came back only with a new journal.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `b` (`id` INT NOT NULL PRIMARY KEY, `v` INT) ENGINE=BLACKHOLE
0> INSERT INTO `b` VALUES (1, 1)
~ rest
0> ALTER TABLE `b` ENGINE=InnoDB
0> INSERT INTO `b` VALUES (2, 2), (3, 3)
~ signal recapture
0> INSERT INTO `b` VALUES (4, 4)
~ rest
