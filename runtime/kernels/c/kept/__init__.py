"""What was planned, from one process to the next.

plans      where it lies, and by what it is found
programs   straight lines of kernels as plain data
graphs     graphs with fusion groups in them, as text with its places in source
"""
