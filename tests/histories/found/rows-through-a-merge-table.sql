-- The log has what changes through a MERGE table under that one's name. The other one lost it, and kept on as before.
# 9.7 FULL but _
0> CREATE TABLE `t` (`id` INT NOT NULL, `v` INT, PRIMARY KEY (`id`)) ENGINE=MyISAM
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
~ rest
0> CREATE TABLE `_all` (`id` INT NOT NULL, `v` INT, PRIMARY KEY (`id`)) ENGINE=MERGE UNION=(`t`) INSERT_METHOD=LAST
~ rest
0> INSERT INTO `_all` VALUES (3, 3)
0> DELETE FROM `_all` WHERE `id` = 1
~ rest
0> DROP TABLE `_all`
0> UPDATE `t` SET `v` = 5
~ signal recapture
~ rest
