-- The same of text with two codes of one character.
# 9.7 FULL all
0> CREATE TABLE `t` (`k` VARCHAR(9) CHARACTER SET sjis PRIMARY KEY, `v` INT)
~ rest
0> INSERT INTO `t` VALUES (x'5C', 1), (x'815F', 2)
~ rest
