"""The kinds of questions, a module each."""
