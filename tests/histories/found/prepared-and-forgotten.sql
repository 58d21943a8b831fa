-- An XA transaction of a database that isn't captured stayed prepared until its log was purged.
# 9.7 FULL all
0> CREATE DATABASE IF NOT EXISTS `{DB}`
0> CREATE TABLE `{DB}`.`x` (`id` INT NOT NULL PRIMARY KEY)
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1)
~ rest
1> XA START '{db}-1'
1> INSERT INTO `{DB}`.`x` VALUES (1)
1> XA END '{db}-1'
1> XA PREPARE '{db}-1'
0> INSERT INTO `t` VALUES (2, 2)
~ purge log
~ restart service
0> INSERT INTO `t` VALUES (3, 3)
~ rest
