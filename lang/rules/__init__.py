"""What a grammar cannot say: what may stand where, the order of parameters, fields, names defined twice."""
