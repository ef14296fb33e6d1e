"""What compiles and is still not what its author means: findings with codes, and the changes that mend them."""
