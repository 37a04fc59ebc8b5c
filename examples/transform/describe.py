"""The data, the transform that is measured, and what the simulator knows."""

import random


def series():
    draw = random.Random(7)
    for number in range(80):
        values = [draw.randrange(1_000) for _ in range(30)]
        yield {"id": f"series-{number:02}", "input": {"values": values}, "expected": max(values)}


def describe(item):
    """Replace the numbers by a summary; everything else of the input stays."""
    return {**item, "values": describe_numbers(item["values"])}


def describe_numbers(values):
    return f"{len(values)} numbers from {min(values)} to {max(values)}, {sum(values) / len(values):.1f} on average"


def states_the_largest(case, prompt):
    return f"to {case.expected}," in prompt
