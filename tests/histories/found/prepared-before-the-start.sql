-- An XA transaction was prepared before capture began, and committed later.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1)
1> XA START '{db}-1'
1> INSERT INTO `t` VALUES (2, 2)
1> XA END '{db}-1'
1> XA PREPARE '{db}-1'
~ new journal
~ caught up
~ 80 ms
~ 80 ms
~ 80 ms
1> XA COMMIT '{db}-1'
0> INSERT INTO `t` VALUES (3, 3)
~ rest
