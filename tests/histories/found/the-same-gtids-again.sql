-- A server whose log was reset gave GTIDs that had passed to other transactions, and capture went on.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
~ reset log
0> INSERT INTO `t` VALUES (4, 4)
~ rest
