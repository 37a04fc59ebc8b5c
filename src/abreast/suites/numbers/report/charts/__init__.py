"""The pictures of the suite, all from its figures."""
