-- Who asked for the keys of a MEMORY table that a restart had emptied kept the server from logging that.
# 9.7 FULL all
0> CREATE TABLE `t` (`a` INT NOT NULL, `b` INT NOT NULL, UNIQUE KEY (`a`, `b`), UNIQUE KEY (`b`, `a`)) ENGINE=MEMORY
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
~ rest
~ restart server
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY)
~ caught up
0> INSERT INTO `t` VALUES (3, 3)
~ rest
