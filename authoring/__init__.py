"""What the author of a formula uses: the check, the registration and the command line."""
