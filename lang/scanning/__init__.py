"""Text → tokens: words, f-strings, layout by indentation, and what stands in decorators and comments."""
