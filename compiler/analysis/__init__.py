"""What is known of a graph without changing it."""
