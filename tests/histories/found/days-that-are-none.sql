-- Keys that are several in the source and one in the lake came by the log.
# 9.7 FULL all
0> SET SESSION sql_mode = ''
0> CREATE TABLE `t` (`k` DATE NOT NULL PRIMARY KEY, `v` INT)
~ rest
0> INSERT INTO `t` VALUES ('0000-00-00', 1), ('2020-00-00', 2), ('2020-01-00', 3)
0> DELETE FROM `t` WHERE `v` = 2
~ rest
