# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The time limits of a job: how long it waits for tasks, devices, resets, instances and people."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How long a job waits for what.

    :ivar poll: between two polls.
    :ivar settle: a device may take this long to report the version after its task has ended.
    :ivar reset: a System may take this long to come back.
    :ivar stall: a task may claim to run this long without progress; then the device is read instead. The slowest known write
        takes 40 minutes (Intel FPGA PAC N3000: openshift/openshift-docs#32785), and nobody knows whether its task reports
        progress meanwhile.
    :ivar claims: an instance may take this long to release what it has claimed.
    :ivar person: a person may take this long to do by hand what no BMC can.
    :ivar blind: a host that was read off at both ends of this interval has not run code of its own in between: no machine that
        carries accelerators gets through its firmware and a boot loader in this time.
    """

    poll: timedelta = timedelta(seconds=5)
    settle: timedelta = timedelta(seconds=120)
    reset: timedelta = timedelta(minutes=15)
    stall: timedelta = timedelta(minutes=45)
    claims: timedelta = timedelta(minutes=5)
    person: timedelta = timedelta(hours=8)
    blind: timedelta = timedelta(seconds=10)
