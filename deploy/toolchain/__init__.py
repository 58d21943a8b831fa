"""Brings a bare Debian-like machine to where Tidemark runs: virtual environment, Java, Delta's jars, MySQL.

It runs before the virtual environment exists, so everything here but `mysql_server` is the standard library
alone. What it fetches lies in a cache outside the checkout (`cache.root`), one folder for each part, named by
the hash of what pins it: two checkouts with different pins live side by side, and with the same ones share.

A folder's last file to be written is the marker `complete`, so an interrupted run leaves nothing that could
be mistaken for a part, a repeated one has only to look, and a second one beside the first waits for it.
Nothing of the host is changed.
"""
