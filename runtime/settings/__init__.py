"""What a process or a thread may choose, and what is counted for it."""
