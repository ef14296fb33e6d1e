"""What users hold and call: objects whose methods start everything, above all else in the runtime."""
