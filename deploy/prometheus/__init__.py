"""What Prometheus is given to watch Tidemark with: alert rules, their tests, and a configuration to begin from."""
