"""What each binlog event says."""
