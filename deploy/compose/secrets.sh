#!/bin/sh
# Makes the passwords and tokens of compose.yaml that aren't there yet, in a folder that git ignores.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 0700 secrets
for name in mysql_root_password mysql_password http_token http_read_token grafana_password; do
    [ -e "secrets/$name" ] && continue
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "secrets/$name"
    chmod 0644 "secrets/$name"
done
