"""Lists of what a run of a plan does, from the run itself: rows of slots, and the steps between them."""
