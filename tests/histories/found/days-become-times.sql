-- The oracle knew nothing of a DATE's widening; the lake has midnights for the days of before.
# 9.7 FULL all
0> CREATE TABLE `t` (`id` INT NOT NULL, `c` DATE, PRIMARY KEY (`id`))
0> SET SESSION sql_mode = 'STRICT_ALL_TABLES'
0> INSERT INTO `t` (`id`, `c`) VALUES (6, '2020-01-00'), (7, '2024-02-29'), (8, '0000-03-01'), (9, '9999-12-31')
~ rest
0> ALTER TABLE `t` MODIFY `c` DATETIME
~ 5 ms
0> DELETE FROM `t` WHERE `id` = 9
0> INSERT INTO `t` VALUES (10, '2024-02-29 10:00:00')
~ rest
