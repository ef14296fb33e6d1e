"""From optimised graphs to kernels: groups, kernel IR, schedules. Knows nothing of Triton or C."""
