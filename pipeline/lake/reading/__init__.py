"""What people and engines find that read the lake: what each lake table says of itself, and the SQL of each engine."""
