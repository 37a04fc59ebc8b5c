"""The experiment as written: YAML, TOML, JSON or Python, and its cases."""
