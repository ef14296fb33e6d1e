"""The arguments of a trial: shapes and values to try, recipes that make them, and the search for what fits."""
