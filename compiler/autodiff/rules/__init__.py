"""What differentiation does at each kind of node: by a formula or a pair, at branches, and at loops."""
