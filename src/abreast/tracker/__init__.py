"""For users who run their own loop: track calls, log rows, read them back, check before each experiment."""
