#!/bin/sh
# The account that Tidemark reads with, and no more rights than it needs. Run once, by the first start of the server.
set -eu
mysql --user=root --password="$(cat /run/secrets/mysql_root_password)" <<SQL
CREATE USER tidemark IDENTIFIED BY '$(cat /run/secrets/mysql_password)';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO tidemark;
GRANT SELECT ON shop.* TO tidemark;
SQL
