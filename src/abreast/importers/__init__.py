"""Reading the logs of other tools: each becomes a run of a store, so that everything works on it."""
