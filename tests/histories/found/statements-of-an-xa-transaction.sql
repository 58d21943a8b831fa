-- An XA transaction was logged as statements. Its tables were read again before its commit, and never after it.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` INT)
0> INSERT INTO `t` VALUES (1, 1), (2, 2)
~ rest
1> SET SESSION binlog_format = STATEMENT
1> XA START '{db}-1'
1> UPDATE `t` SET `v` = `v` + 1
1> XA END '{db}-1'
1> XA PREPARE '{db}-1'
~ caught up
~ 80 ms
~ 80 ms
~ 80 ms
1> XA COMMIT '{db}-1'
~ rest
