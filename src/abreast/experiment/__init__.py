"""The public façade. It only wires the rooms together."""
