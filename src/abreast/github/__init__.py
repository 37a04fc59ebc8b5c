"""The steps of the GitHub action in `action.yml`."""
