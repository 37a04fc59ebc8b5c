"""Two ways to read a date. Both get the case and return an ISO date."""

from datetime import datetime

FORMATS = {
    "strict": ["%Y-%m-%d", "%d.%m.%Y"],
    "lenient": ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%B %d, %Y"],
}


def parse(case, reader):
    text = case.input.strip()
    for form in FORMATS[reader]:
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return "unknown"
