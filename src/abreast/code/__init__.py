"""A user's code: finding a function by its name, and what its answers depend on."""
