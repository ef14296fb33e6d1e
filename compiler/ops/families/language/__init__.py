"""The ops of the language itself: numbers, strings and lists, control, and what the source says of a value."""
