"""The spec of an experiment, in YAML, TOML, JSON or Python, and its cases."""
