"""From kernels to kernels that run well: axes merged, reductions shared out, tiles chosen."""
