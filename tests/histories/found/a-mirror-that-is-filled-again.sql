-- Readers saw a part of a table while its mirror was filled again.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL AUTO_INCREMENT PRIMARY KEY, `v` INT)
0> INSERT INTO `t` (`v`) VALUES (1), (2), (3), (4), (5), (6), (7), (8)
0> INSERT INTO `t` (`v`) SELECT a.v FROM `t` a JOIN `t` b JOIN `t` c
~ rest
0> ALTER TABLE `t` ADD COLUMN `w` VARCHAR(60) DEFAULT (CONCAT('x', RAND()))
~ rest
