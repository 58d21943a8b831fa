-- A DROP TABLE that fails has taken the first of its tables, which can't be read again. Its successor was never complete.
# 5.6 MINIMAL all
0> CREATE TABLE `parent` (`id` INT NOT NULL PRIMARY KEY)
0> CREATE TABLE `other` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `other` VALUES (7), (8)
0> CREATE TABLE `child` (`id` INT NOT NULL PRIMARY KEY, `p` INT, FOREIGN KEY (`p`) REFERENCES `parent` (`id`))
~ rest
0> DROP TABLE `other`, `parent`
~ rest
0> CREATE TABLE `other` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `other` VALUES (9)
~ rest
