"""Find the network interface over which the nodes reach each other, and make gloo use it.

By default, gloo uses the address that belongs to the machine's own host name. On many machines this is a loopback
address, and the other nodes cannot connect to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "GLOO_SOCKET_IFNAME"


def gloo_environment(own_address: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variable that makes gloo use the interface of `own_address`.

    Return an empty dictionary if the user has set the variable, or if no interface has the address.
    """
    if environment.get(VARIABLE):
        return {}
    import psutil

    address = own_address.removeprefix("::ffff:").partition("%")[0]
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in entries):
            return {VARIABLE: name}
    return {}
