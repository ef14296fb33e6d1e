"""Units as users hold them: sources compiled, the names around a text, and `gs.script` of Python functions."""
