# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse to run a job on another machine than the one it was begun on, by the addresses of the BMCs.

A target keeps its name when its server is replaced, so the name proves nothing.
"""

from dataclasses import replace
from urllib.parse import urlsplit

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.errors import StaleJob
from baremetal_acc.execution.context import Target
from baremetal_acc.model.job import Job

_PORTS = {'https': 443, 'http': 80}


def bound(job: Job, target: Target) -> Job:
    """Return the job bound to the addresses of the target's BMCs, if it is not bound yet.

    Cards are known by their identity; a System that is reset is known only by the address of its BMC.

    :raises StaleJob: a BMC has another address than when the job was begun, or is not there any more.
    """
    here = tuple((address.name, origin(address)) for address in target.bmcs)
    if not job.bmcs:
        return replace(job, bmcs=here)
    now = dict(here)
    for name, before in job.bmcs:
        if now.get(name) != before:
            found = f'its address is now {now[name]}' if name in now else 'the target no longer has a BMC of that name'
            raise StaleJob(
                f'{target.name}: its {job.step} of {job.created:%Y-%m-%d %H:%M:%S}Z was begun on BMC {name} at {before}, '
                f'but {found}: nothing is done to another machine',
                hint=(
                    f'restore the old address of BMC {name} to resume the job; if the machine was replaced for good, clean the '
                    'node, or service it with lock_accelerators: neither resumes the job'
                ),
            )
    return job


def origin(address: BmcAddress) -> str:
    """Return scheme, host and port of a BMC, in normal form."""
    parts = urlsplit(address.address)
    host = parts.hostname or ''
    named = f'[{host}]' if ':' in host else host
    return f'{parts.scheme}://{named}:{parts.port or _PORTS.get(parts.scheme, 0)}'
