-- MySQL 5.6 leaves /*!99999 … */ out with a comment in it, and logs that without its sign. What came after the inner
-- one was taken for a part of the statement, so that a table lost all of its rows.
# 5.6 MINIMAL all
0> CREATE TABLE `a` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `a` VALUES (1), (2)
0> CREATE TABLE `c` (`id` INT NOT NULL PRIMARY KEY)
0> INSERT INTO `c` VALUES (3), (4)
~ rest
0> RENAME TABLE `a` TO `b` /*!99999 x /* y */ , `c` TO `d` */
~ rest
0> RENAME TABLE `b` TO `a` /*!99999 x /* y */ ' */, `c` TO `d`
~ rest
