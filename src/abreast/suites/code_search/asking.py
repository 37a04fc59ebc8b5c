"""What an agent is asked, and in which form it shall answer, so that every answer says what it claims."""

from __future__ import annotations

PROMPT = """{{ input }}

The code is in the current folder. Do not change anything. End your answer with one JSON object and nothing after it:
{"files": [paths from the current folder], "symbols": [names of functions, types or constants], \
"lines": {path: [line numbers]}, "content": [short quotations]}
List only what the question asks for, and all of it; leave out the keys that it does not ask for."""
