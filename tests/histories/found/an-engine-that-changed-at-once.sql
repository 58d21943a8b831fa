-- An engine that loses rows, and another one before the server could be asked: the rows in the log count as the table's.
# 9.7 FULL all
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY) ENGINE=BLACKHOLE
0> INSERT INTO `u` VALUES (1), (2)
0> ALTER TABLE `u` ENGINE=InnoDB
0> INSERT INTO `u` VALUES (3)
~ rest
