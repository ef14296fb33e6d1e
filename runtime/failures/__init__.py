"""What goes wrong with data, told in terms of the source."""
