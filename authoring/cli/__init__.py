"""The `gradscript` command, a file for each of its subjects."""
