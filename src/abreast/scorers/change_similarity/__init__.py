"""`change_similarity`: how like the change of an agent is to the one that a human made."""
