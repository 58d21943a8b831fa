-- A day of the year 0 in a key ended the sink, as often as it began.
# 9.7 FULL all
0> CREATE TABLE `t` (`d` DATE NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES ('0000-03-01', 1), ('2024-02-29', 2)
~ rest
0> UPDATE `t` SET `v` = 3
~ rest
