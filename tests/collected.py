# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep sushy from logging out in the thread of an emulated BMC, which would wait for its own answer.

``sushy.Sushy.__del__`` logs out, over HTTP, in whatever thread the garbage collector runs. Where that is the thread that plays
the very BMC, both wait for each other until the time of the request is over (60 s), and what the test asked meanwhile fails.
"""

import threading

import sushy

EMULATOR = 'emulated-bmc'
"""Name of the thread of :class:`baremetal_acc.emulator.server.EmulatorThread`."""

_log_out = sushy.Sushy.__del__


def _log_out_elsewhere(self: sushy.Sushy) -> None:
    """As sushy's; a session whose end is noticed by its own BMC is left to time out."""
    if threading.current_thread().name != EMULATOR:
        _log_out(self)


def never_by_an_emulated_bmc() -> None:
    """From here on, in this process."""
    sushy.Sushy.__del__ = _log_out_elsewhere
