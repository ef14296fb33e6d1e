"""What is wrong with a gradient: the term that is, and the change that mends it."""
