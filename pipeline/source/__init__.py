"""What the source server is asked, how its answers are decoded, and what it must be like."""
