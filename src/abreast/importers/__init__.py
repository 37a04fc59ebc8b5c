"""Import of other tools' logs as runs of a store, so that every command works on them."""
