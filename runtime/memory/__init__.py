"""What is kept from a forward to its backward, measured and told."""
