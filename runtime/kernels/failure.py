"""KernelFailure: a kernel that cannot be built or kept."""


class KernelFailure(Exception):
    """Triton is missing, or does not compile a text, or nothing can be kept; the message says what was wrong."""
