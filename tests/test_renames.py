"""Detection of renamed names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.preflight.checks.renames import renames

RENAMED = [
    ("lr", "learning_rate"),
    ("temp", "temperature"),
    ("maxTokens", "max_tokens"),
    ("n_layers", "num_layers"),
    ("embedding_dim", "embed_dim"),
    ("batchsize", "batch_size"),
    ("bs", "batch_size"),
    ("max_lr", "max_learning_rate"),
    ("wd", "weightDecay"),
    ("model-name", "model_name"),
    ("Model", "model"),
    ("temprature", "temperature"),
    ("num_epoch", "num_epochs"),
    ("ctx_len", "context_length"),
    ("dim_embedding", "embedding_dim"),
    ("conf", "confidence"),
    ("raw_resp", "raw_response"),
    ("latency_avg", "latency_mean"),
]
DIFFERENT = [
    ("top_k", "top_p"),
    ("model", "mode"),
    ("min_tokens", "max_tokens"),
    ("input_tokens", "output_tokens"),
    ("train_path", "test_path"),
    ("lr", "l1"),
    ("x1", "x2"),
    ("layer1_dim", "layer2_dim"),
    ("weight", "height"),
    ("encoder", "decoder"),
    ("prompt", "system"),
    ("precision", "recall"),
    ("start_date", "end_date"),
    ("id", "input_dim"),
    ("p50", "p95"),
    ("v1_1", "v11"),
    ("include", "exclude"),
    ("query", "queue"),
    ("higher", "highest"),
    ("max_tokens", "max_turns"),
    ("a", "b"),
    ("seed", "speed"),
    ("retries", "entries"),
    ("weight_decay", "weight_delay"),
    ("", "_"),
]


@pytest.mark.parametrize(("old", "new"), RENAMED, ids=lambda name: name)
def test_the_same_words_are_a_rename_in_either_direction(old: str, new: str) -> None:
    assert renames([old, "seed"], ["seed", new]) == [(old, new)]
    assert renames([new], [old]) == [(new, old)]


@pytest.mark.parametrize(("old", "new"), DIFFERENT, ids=lambda name: name or "nothing")
def test_names_that_only_look_alike_are_not_a_rename(old: str, new: str) -> None:
    assert renames([old, "seed"], ["seed", new]) == []
    assert renames([old], [new], {old: [64, 128]}, {new: [64, 128]}) == [], "not even with the same values"


def test_equal_values_make_up_for_a_missing_word() -> None:
    assert renames(["size"], ["batch_size"]) == []
    assert renames(["size"], ["batch_size"], {"size": [16, 32]}, {"batch_size": [16, 32]}) == [("size", "batch_size")]
    assert renames(["size"], ["batch_size"], {"size": [16, 32]}, {"batch_size": [16, 64]}) == []
    assert renames(["stream"], ["stream_tokens"], {"stream": [True]}, {"stream_tokens": [True]}) == []


def test_values_of_another_kind_are_not_a_rename() -> None:
    assert renames(["temp"], ["temperature"], {"temp": ["/tmp/x"]}, {"temperature": [0.5]}) == []
    assert renames(["temp"], ["temperature"], {"temp": [0.1]}, {"temperature": [0.5]}) == [("temp", "temperature")]


def test_of_two_candidates_the_one_with_the_same_values_is_chosen() -> None:
    pairs = renames(["n_layers"], ["number_layers", "num_layers"], {"n_layers": [6]}, {"num_layers": [6]})
    assert pairs == [("n_layers", "num_layers")]


def test_names_may_be_long() -> None:
    assert renames(["a_" * 50_000], ["b_" * 50_000]) == []
    assert renames(["a_" * 50_000], ["a" * 50_000]) == [("a_" * 50_000, "a" * 50_000)]


def test_a_thousand_names_are_compared_quickly() -> None:
    old, new = [f"someName{n}" for n in range(1000)], [f"some_name_{n}" for n in range(1000)]
    assert len(renames(old, new)) == 1000


NAMES = st.lists(st.text("abnmxk_T12 ", max_size=6) | st.sampled_from([name for pair in RENAMED for name in pair]))


@given(NAMES, NAMES)
def test_each_name_is_used_once_and_unchanged_names_are_not(old: list[str], new: list[str]) -> None:
    pairs = renames(old, new)
    before, after = [old_name for old_name, _ in pairs], [new_name for _, new_name in pairs]
    assert len(set(before)) == len(before)
    assert len(set(after)) == len(after)
    assert set(before) <= set(old) - set(new)
    assert set(after) <= set(new) - set(old)


@given(NAMES)
def test_the_same_names_give_no_renames(names: list[str]) -> None:
    assert renames(names, names) == []
    assert renames(names, names[::-1]) == []
    assert renames(names, []) == renames([], names) == []


@given(NAMES, NAMES)
def test_the_order_of_the_old_names_is_kept(old: list[str], new: list[str]) -> None:
    renamed = [old_name for old_name, _ in renames(old, new)]
    assert renamed == sorted(renamed, key=list(dict.fromkeys(old)).index)
