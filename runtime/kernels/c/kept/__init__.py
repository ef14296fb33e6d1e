"""What was planned, from one process to the next.

plans          where it lies, and by what it is found
programs       straight lines of kernels as plain data
open_programs  such lines, sizes in them open, before they are data and after
graphs         graphs with fusion groups in them, as text with its places in source
classes        families of sizes, and for which sizes which plan with open ones is right
"""
