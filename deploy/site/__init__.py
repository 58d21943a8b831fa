"""The docs as a site: its settings, and the hook that makes pages of what lies outside of docs/."""
