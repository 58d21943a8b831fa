-- Before MySQL 8.0 the log has a DROP TABLE that a foreign key refuses. Its mirror was emptied for good.
# 5.6 MINIMAL all
0> CREATE TABLE `parent` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `parent` VALUES (1, 1), (2, 2), (3, 3)
0> CREATE TABLE `other` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `other` VALUES (7), (8)
0> CREATE TABLE `child` (`id` INT NOT NULL PRIMARY KEY, `p` INT, FOREIGN KEY (`p`) REFERENCES `parent` (`id`))
~ rest
0> DROP TABLE IF EXISTS `parent`
0> UPDATE `parent` SET `v` = 10 WHERE `id` = 1
~ rest
0> DROP TABLE `other`, `parent`
0> CREATE TABLE `other` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `other` VALUES (9)
~ rest
