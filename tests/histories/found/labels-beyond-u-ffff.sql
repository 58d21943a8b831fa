-- A snapshot waited for ever for a schema that the server shows otherwise.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` ENUM('😀','b'))
0> INSERT INTO `t` VALUES (1, 1), (2, 2), (3, 1)
~ rest
0> UPDATE `t` SET `v` = 2 WHERE `id` = 1
~ rest
