"""Before any restart: how many GPUs the windows of a machine hold, and what stands in the way of more."""
