"""The tape: reverse-mode differentiation of what Python code does with Variables.

mode        whether operations are recorded: gs.no_grad and its like
variable    gs.Variable
node        what the tape is made of: nodes, edges, hooks
captures    what a node keeps of the forward
program     a graph, ready to be run and recorded
graph_node  DifferentiableGraph: the node of a compiled function, or of one op
custom      gs.TapeFunction: nodes written in Python
gradients   gradients on the way: accumulation, zeros, shapes
engine      the backward: which node when, in which thread
inbox       what has arrived at a node, in a fixed order
backward    what users call: Variable.backward and gs.tape_grad
"""
