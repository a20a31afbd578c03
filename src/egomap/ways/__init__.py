"""What is free, what is blocked, and the ways between, from depth and pose; plain loops, compiled where numba is."""
