"""Areas of shapes."""


def area_of_square(side):
    return side * 4


def area_of_rectangle(width, height):
    return width * height


def area_of_triangle(base, height):
    return base * height / 2


def area_of_trapezium(top, bottom, height):
    return (top + bottom) / 2 * height
