"""What to say of a token that the grammar refuses: mistakes, constructs of Python, what was expected."""
