"""Files kept from one process to the next, and trusted only after they were checked."""
