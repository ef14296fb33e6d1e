"""The graph: nodes, blocks and values, its text in both directions, building, rewriting and verifying it."""
