-- A server that starts has no rows of a MEMORY table, and logs that as a DELETE.
# 5.6 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT) ENGINE=MEMORY
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 3)
~ rest
~ restart server
0> SELECT COUNT(*) FROM `t`
~ rest
