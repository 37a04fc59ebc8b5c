"""Print the total area of the shapes, up to a limit."""

from configparser import ConfigParser
from pathlib import Path

from shapes import area_of_rectangle

settings = ConfigParser()
settings.read(Path(__file__).with_name("settings.ini"))
limit = settings.getint("report", "limit")
sides = [(6, 7)] * 40
print(sum(area_of_rectangle(width, height) for width, height in sides[:limit]))
