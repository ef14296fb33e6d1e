"""How source says ops, and in which order results: read by emission, written by unparsing."""
