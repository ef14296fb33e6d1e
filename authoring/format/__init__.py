"""Source in one style."""
