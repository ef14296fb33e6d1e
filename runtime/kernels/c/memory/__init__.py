"""Programs on bare memory: kernels, products and views, and lists of what runs of plans do."""
