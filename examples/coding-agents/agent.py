"""Two scripted agents: they read the task and change files in the current folder."""

import sys
from pathlib import Path

name, prompt = sys.argv[1], Path(sys.argv[2]).read_text()
shapes = Path("shapes.py")

if "area_of_square" in prompt:
    shapes.write_text(shapes.read_text().replace("side * 4", "side * side"))
    print("corrected area_of_square")
elif "perimeter_of_rectangle" in prompt and name == "careful":
    function = "\n\ndef perimeter_of_rectangle(width, height):\n    return 2 * (width + height)\n"
    shapes.write_text(shapes.read_text() + function)
    print("added perimeter_of_rectangle")
else:
    print("I do not know how to do this.")
