"""Check the work of an agent. `check` runs this in the agent's folder with the name of the prompt; exit code 0 is a pass.

This file is next to the settings, where agents cannot see it.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))


def output() -> str:
    process = subprocess.run([sys.executable, "report.py"], capture_output=True, text=True, check=False)
    return process.stdout.strip()


def fix_area() -> bool:
    from shapes import area_of_square

    return [area_of_square(side) for side in (0, 1, 9)] == [0, 1, 81]


def add_perimeter() -> bool:
    from shapes import perimeter_of_rectangle

    return [perimeter_of_rectangle(6, 7), perimeter_of_rectangle(0, 1)] == [26, 2]


def rename_setting() -> bool:
    settings = Path("settings.ini").read_text()
    return "most = 17" in settings and "limit" not in settings and output() == "714"


def report_units() -> bool:
    return output() == "714 cm2"


CHECKS = {
    "fix-area.md": fix_area,
    "add-perimeter.md": add_perimeter,
    "rename-setting.md": rename_setting,
    "report-units.md": report_units,
}
sys.exit(0 if CHECKS[sys.argv[1]]() else 1)
