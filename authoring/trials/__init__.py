"""A gradient on trial: arguments found, derivatives measured, and what came of it."""
