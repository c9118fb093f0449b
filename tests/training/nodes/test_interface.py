"""Test that gloo is told to use the interface of the connection between the nodes."""

from __future__ import annotations

from training.nodes.interface import gloo_environment


def test_the_interface_of_the_own_address_is_named() -> None:
    assert gloo_environment("127.0.0.1", {}) == {"GLOO_SOCKET_IFNAME": "lo"}
    assert gloo_environment("::ffff:127.0.0.1", {}) == {"GLOO_SOCKET_IFNAME": "lo"}


def test_a_variable_of_the_user_and_an_unknown_address_change_nothing() -> None:
    assert gloo_environment("127.0.0.1", {"GLOO_SOCKET_IFNAME": "eth7"}) == {}
    assert gloo_environment("192.0.2.1", {}) == {}
