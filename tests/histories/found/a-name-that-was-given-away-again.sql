-- The name in the middle of a swap has no table behind it. Its mirror was to be read again, and stayed incomplete.
# 9.7 FULL all
0> CREATE TABLE `a` (`id` INT NOT NULL PRIMARY KEY)
0> CREATE TABLE `b` (`id` INT NOT NULL PRIMARY KEY)
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `a` VALUES (10), (11)
0> INSERT INTO `b` VALUES (20)
~ rest
0> DROP TABLE `t`
0> RENAME TABLE `a` TO `t`, `b` TO `a`, `t` TO `b`
~ rest
0> CREATE TABLE `t` (PRIMARY KEY (`id`)) SELECT `id` FROM `a`
~ rest
