"""Text → AST: source positions, diagnostics, the grammar, the syntax tree and the parser."""
