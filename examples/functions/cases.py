"""40 dates in four notations, with the right answer."""

from datetime import date, timedelta

NOTATIONS = {"iso": "%Y-%m-%d", "de": "%d.%m.%Y", "us": "%m/%d/%Y", "long": "%d %B %Y"}


def load():
    for number in range(10):
        day = date(2024, 1, 15) + timedelta(days=37 * number)
        for order, notation in NOTATIONS.items():
            yield {
                "id": f"{order}-{number:02}",
                "input": day.strftime(notation),
                "expected": day.isoformat(),
                "tags": {"order": order},
            }
