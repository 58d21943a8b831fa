-- A table that could not be read again while it was gone stayed incomplete when it came back by CREATE TABLE IF NOT EXISTS.
# 5.6 MINIMAL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `t` VALUES (1), (2)
~ rest
0> DROP TABLE `t`, `none`
~ rest
0> CREATE TABLE IF NOT EXISTS `t` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `t` VALUES (7)
~ rest
