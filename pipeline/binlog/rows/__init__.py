"""Row images to Arrow columns."""
