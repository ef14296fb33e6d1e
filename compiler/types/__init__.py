"""What values are: dtypes, types, and the schemas of ops and functions."""
