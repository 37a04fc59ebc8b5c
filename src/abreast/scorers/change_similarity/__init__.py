"""`change_similarity`: the similarity of an agent's change to the human change."""
