-- A table got a key whose values are one in the lake, and readers took what its snapshot had read for the table.
# 9.7 FULL all
0> CREATE TABLE `t` (`x` INT NOT NULL PRIMARY KEY, `v` DATETIME)
0> INSERT IGNORE INTO `t` VALUES (1, '2020-01-00'), (2, '2024-02-29'), (3, '2025-01-01')
~ rest
0> ALTER TABLE `t` DROP PRIMARY KEY, ADD PRIMARY KEY (`v`)
~ rest
0> DELETE FROM `t` WHERE `x` = 1
~ signal recapture
~ rest
