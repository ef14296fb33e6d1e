"""The grammar, the tables that Lark made of it, the loop that reads them, and the tree that it builds."""
