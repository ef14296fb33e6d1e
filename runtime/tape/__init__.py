"""The tape: reverse-mode differentiation of what Python code does with Variables.

mode          whether operations are recorded: gs.tape.no_grad and its like
value         gs.tape.Variable
node          what the tape is made of: nodes and edges
hooks         nodes run with their hooks around them
captures      what a node keeps of the forward
fingerprints  whether that has been written into since
programs      a function ready to be run and recorded, by what it depends on of its values
graph_node    DifferentiableGraph: the node of a group of a plan, of a function's own backward, or of one op
recording     an executor's plan, recording as it runs
calls         calls of compiled functions and of operators
custom        gs.tape.Function: nodes written in Python
gradients     gradients on the way: accumulation, zeros, shapes
graph_walk    what a backward does with one node, and which it needs
sequential    the backward in one thread
engine        the backward in several: which node when, in which thread
inbox         what has arrived at a node, in a fixed order
backward      what users call: Variable.backward and gs.tape.grad
"""
