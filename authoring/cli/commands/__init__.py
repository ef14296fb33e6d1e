"""The commands, a file for each by its name."""
