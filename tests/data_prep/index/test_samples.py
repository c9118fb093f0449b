"""Sample arrays against a naive concatenation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_prep.index.samples import (
    document_order,
    epochs_for,
    generator,
    sample_order,
    sample_starts,
    samples_in,
)

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 12), st.integers(1, 7))
def test_samples_start_where_the_concatenation_says(lengths, sequence_length, chunk):
    owner = [(number, offset) for number, length in enumerate(lengths) for offset in range(length)]
    samples = samples_in(len(owner), sequence_length)
    assert samples == sum(start + sequence_length < len(owner) for start in range(0, len(owner), sequence_length))
    found = np.concatenate(list(sample_starts(np.array(lengths, np.int32), sequence_length, samples, chunk)))
    assert found.dtype == np.int64
    assert [tuple(row) for row in found] == [owner[i * sequence_length] for i in range(samples + 1)]


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 500))
def test_epochs_are_the_fewest_that_hold_the_samples(tokens, sequence_length, samples):
    epochs = epochs_for(tokens, sequence_length, samples)
    assert samples_in(epochs * tokens, sequence_length) >= samples
    assert epochs == 1 or samples_in((epochs - 1) * tokens, sequence_length) < samples


@given(st.integers(1, 40), st.integers(1, 6))
def test_every_epoch_reads_every_document_once(documents, epochs):
    order = document_order(documents, epochs, generator(1, "x"))
    assert order.dtype == np.int32
    assert all(sorted(epoch) == list(range(documents)) for epoch in order.reshape(epochs, documents))
    assert np.array_equal(order, document_order(documents, epochs, generator(1, "x")))


def test_epochs_and_names_are_shuffled_differently():
    order = document_order(50, 2, generator(1, "x"))
    assert not np.array_equal(order[:50], order[50:])
    assert not np.array_equal(order[:50], np.arange(50))
    assert not np.array_equal(order, document_order(50, 2, generator(1, "y")))
    assert not np.array_equal(order, document_order(50, 2, generator(2, "x")))


@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 12))
def test_samples_are_shuffled_within_their_epoch(tokens, epochs, sequence_length):
    samples = samples_in(epochs * tokens, sequence_length)
    order = sample_order(tokens, epochs, sequence_length, samples, generator(1, "x"))
    assert sorted(order) == list(range(samples))
    starting_epoch = order * sequence_length // tokens
    assert (np.diff(starting_epoch) >= 0).all()
