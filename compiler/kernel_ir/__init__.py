"""What one kernel computes: axes, indices, statements; its text, its checks, its meaning. Knows no emitter."""
