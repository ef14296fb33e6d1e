"""Graphs → canonical source, which compiles to the same graphs again and prints as the same text.

The forms of the text:

    unparse_function(callee)        one function, closures in place
    function_lines(callee)          its lines, each with the node that it says
    unparse_unit(callees)           every function of a unit
    unparse_pair(pair)              a lifted pair as two plain functions
    unparse_closure_stage(callee)   the stage between the two
    unparse_program(callee, …)      what was made of functions, with all that it calls
"""

from .functions import function_lines, unparse_closure_stage, unparse_function, unparse_pair, unparse_unit
from .standalone import unparse_program
from .statements import SourceLine

__all__ = [
    "SourceLine",
    "function_lines",
    "unparse_closure_stage",
    "unparse_function",
    "unparse_pair",
    "unparse_program",
    "unparse_unit",
]
