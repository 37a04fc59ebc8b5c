"""Code of users: load functions by name, and detect changes in the code that answers depend on."""
