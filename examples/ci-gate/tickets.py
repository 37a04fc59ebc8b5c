"""The function that is guarded, and 60 tickets with the right queue."""

WORDS = {"billing": ("invoice", "refund", "charged"), "login": ("password", "sign in", "locked")}
TEXTS = {
    "billing": "I was charged twice for order {}.",
    "login": "My account is locked since attempt {}.",
    "other": "Where can I read more about feature {}?",
}


def triage(case):
    text = case.input.lower()
    return next((queue for queue, words in WORDS.items() if any(word in text for word in words)), "other")


def load():
    for number in range(20):
        for queue, text in TEXTS.items():
            yield {"id": f"{queue}-{number:02}", "input": text.format(number), "expected": queue}
