-- A table that can't be captured is refused when it is recaptured, too.
# 9.7 FULL all
0> CREATE TABLE `orders` (`__op` INT, `id` INT NOT NULL, PRIMARY KEY (`id`))
0> INSERT INTO `orders` VALUES (1, 1)
~ signal recapture
~ rest
~ rest
