"""Suite `coding-agents`: which coding agent is better on our repository?"""
