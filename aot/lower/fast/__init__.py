"""Fast schedules for memory-bound work: dispatch regions, their classes, and the kernels of each."""
