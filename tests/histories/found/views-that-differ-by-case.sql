-- A catalog's view of one table took the place of another one's.
# 9.7 FULL all
0> CREATE TABLE `Orders` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `Orders` VALUES (1)
~ rest
0> CREATE TABLE `orders` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `orders` VALUES (2)
~ rest
