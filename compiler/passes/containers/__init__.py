"""Lists and tuples seen through to their elements."""
