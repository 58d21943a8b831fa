-- A generated column changes with the column that it is made of.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `role` VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, `w` INT AS (`role` = 'admin') VIRTUAL)
0> INSERT INTO `t` (`id`, `role`) VALUES (1, 'ADMIN')
0> CREATE TABLE `f` (`id` INT NOT NULL PRIMARY KEY, `f` FLOAT, `w` VARCHAR(60) AS (CONCAT(`f`)) STORED)
0> INSERT INTO `f` (`id`, `f`) VALUES (1, 0.1)
~ rest
0> ALTER TABLE `t` MODIFY `role` VARCHAR(20) COLLATE utf8mb4_bin
~ caught up
0> ALTER TABLE `f` MODIFY `f` DOUBLE
~ rest
