"""One Triton kernel for all samples of sizes, in terms that the interpreter takes too."""
