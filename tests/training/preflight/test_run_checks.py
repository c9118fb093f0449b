"""Test that checks of a broken machine end in time."""

from __future__ import annotations

import threading

import pytest

from bloomery.contracts.preflight import CommunicationState
from training.preflight.run_checks import Findings, run_checks

START = CommunicationState(rank=0, host="node1")


def test_results_of_all_checks_are_returned() -> None:
    state, error = run_checks(lambda findings: findings.add(all_seconds=0.5), START, 60)
    assert (state.all_seconds, error) == (0.5, None)


def test_a_check_that_never_ends_is_named_and_earlier_results_are_kept() -> None:
    end = threading.Event()

    def checks(findings: Findings[CommunicationState]) -> None:
        findings.add(inside_seconds=0.25)
        findings.check = "the all-reduce with node2"
        end.wait()

    state, error = run_checks(checks, START, 0.2)
    end.set()
    assert state.inside_seconds == 0.25
    assert error == "the all-reduce with node2 did not end within 0.2 s"


def test_a_fault_of_the_machine_is_a_result() -> None:
    def checks(findings: Findings[CommunicationState]) -> None:
        findings.check = "a matrix product on cuda:0 of node node1"
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nmore lines")

    _, error = run_checks(checks, START, 60)
    assert error == ("a matrix product on cuda:0 of node node1 failed: CUDA error: uncorrectable ECC error encountered")


def test_an_error_of_the_program_is_raised() -> None:
    def checks(findings: Findings[CommunicationState]) -> None:
        raise KeyError("a mistake in the code")

    with pytest.raises(KeyError, match="a mistake in the code"):
        run_checks(checks, START, 60)
