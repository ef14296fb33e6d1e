"""Graphs made for one kind of arguments: optionals present or not, settings known, loops written out."""
