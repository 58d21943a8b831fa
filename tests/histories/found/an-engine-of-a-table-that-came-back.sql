-- CREATE TABLE IF NOT EXISTS of a table that was gone counted as one that leaves its engine: rows that BLACKHOLE lost stayed.
# 9.7 FULL all
0> CREATE TABLE `u` (`id` INT NOT NULL PRIMARY KEY)
~ rest
0> DROP TABLE `u`
~ rest
0> CREATE TABLE IF NOT EXISTS `u` (`id` INT NOT NULL PRIMARY KEY) ENGINE=BLACKHOLE
0> INSERT INTO `u` VALUES (1), (2)
0> ALTER TABLE `u` ENGINE=InnoDB
0> INSERT INTO `u` VALUES (3)
~ rest
