"""Less of the same: what is constant, common, dead or undone by its neighbour."""
