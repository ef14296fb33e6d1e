"""What networks are made of: windows, normalization, resizing, losses and their adjoints."""
