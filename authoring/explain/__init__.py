"""A page for each code: what it means, a wrong program, a right one."""
