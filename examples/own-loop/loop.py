"""A loop of one's own: each call becomes a row, and nothing is computed twice."""

from abreast import Reader, Tracker

TEXTS = ["The quick brown fox", "jumps over  the lazy dog", "", "again and again and again"]


def count_words(text, style):
    words = text.split() if style == "all" else set(text.lower().split())
    return {"words": len(words)}


tracker = Tracker(db="loop.db", cache="cache", params={"experiment": "word-count"})
for text in TEXTS:
    for style in ("all", "distinct"):
        tracker.track(count_words, args=[text, style])

print(Reader("loop.db").to_df()[["text", "style", "words", "cache"]])
