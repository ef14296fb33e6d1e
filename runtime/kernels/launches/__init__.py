"""What a step comes to on a device: launches and calls of the library, prepared, and lists of them."""
