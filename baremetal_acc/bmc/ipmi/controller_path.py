# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The path from the BMC to a controller behind it, over bridges."""

from dataclasses import dataclass

from baremetal_acc.bmc.ipmi.bridge import BMC, Bridge
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry, RetryingCommands

DEEPEST = 2
"""Maximum number of bridges between us and a controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A controller, as seen from the one before it on the path."""

    channel: int
    address: int


Path = tuple[Hop, ...]
"""The path from the BMC to a controller; empty: the BMC itself."""


def way(path: Path, channel: int, address: int) -> Path:
    """The path of the controller that a locator in the records of another controller refers to.

    Channel 0 of a controller is the bus on which it is reached itself, and 20h there is the controller that manages that bus.
    Any other channel is a bus that the controller manages, and so is channel 0 of the BMC. Address 0 means the controller
    itself.

    :param path: to the controller that has the locator.
    """
    if address in (0, path[-1].address if path else BMC):
        return path
    if not path or channel:
        return path if address == BMC else (*path, Hop(channel=channel, address=address))
    return path[:-1] if address == BMC else (*path[:-1], Hop(channel=path[-1].channel, address=address))


def bridged(raw: Raw, path: Path, patience: NodeBusyRetry | None = None) -> Raw:
    """A :class:`Raw` to a controller.

    :param raw: to the BMC.
    :param patience: time limit for retries of busy controllers; None: a busy controller's answer is returned.
    """
    raw = raw if patience is None else RetryingCommands(raw, patience)
    for hop in path:
        raw = Bridge(raw, address=hop.address, channel=hop.channel)
        raw = raw if patience is None else RetryingCommands(raw, patience)
    return raw
