"""What every actor runs on: mailboxes, supervision, metrics, and logs."""
