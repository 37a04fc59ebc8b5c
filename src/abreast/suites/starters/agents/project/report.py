"""Prints a total."""

from shapes import area_of_rectangle

print(area_of_rectangle(6, 7))
