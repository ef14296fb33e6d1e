"""AST → IR → gradients → kernels' text. Runs no user data, constant folding aside."""
