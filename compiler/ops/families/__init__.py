"""The ops themselves, by family."""
