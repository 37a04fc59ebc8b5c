"""The function to measure: called with a case and the variant's parameters, returns the answer."""


def predict(case, style):
    text = case.input.strip()
    if style == "squeeze":
        text = " ".join(text.split())
    return text.title()
