-- A conversion to TINYTEXT cuts spaces in strict mode too.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` VARCHAR(400))
0> INSERT INTO `t` VALUES (1, CONCAT('abc', REPEAT(' ', 300)))
~ rest
0> ALTER TABLE `t` MODIFY `v` TINYTEXT
~ rest
