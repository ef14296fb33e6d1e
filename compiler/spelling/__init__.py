"""How source says ops: operators, names, and which overload a call means; read by emission, written by unparsing."""
