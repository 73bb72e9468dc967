# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of Cyborg's agent for the test, and what placement has below a node: of Cyborg and of baremetal-acc."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import TREE
from tests.journey.api import Json, Node

OURS, CYBORGS = 'CUSTOM_OWNER_BAREMETAL_ACC', 'OWNER_CYBORG'

H100 = '0000:{bus:02x}:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)'
"""A line of ``lspci -nn -D``: what the host of an emulated machine sees of one of its GPUs."""

_AGENT = """\
[DEFAULT]
host = {host}
[agent]
enabled_drivers = nvidia_gpu_driver
resource_provider_name = {provider}
"""


class AgentFailed(Exception):
    """The agent ended with an error: its output."""


@dataclass(frozen=True, slots=True)
class Cyborg:
    """Cyborg, whose conductor runs.

    :ivar conf: its configuration file.
    :ivar log: of the conductor.
    :ivar folder: for the files of agents.
    """

    conf: Path
    log: Path
    folder: Path

    def report(self, host: str, provider: str, *lspci: str) -> None:
        """Let the agent of a host report what its ``lspci`` prints.

        :param provider: the name of the host's root provider.
        :raises AgentFailed: it did not report to this provider.
        """
        programs = self.folder / host
        programs.mkdir(exist_ok=True)
        (programs / 'devices').write_text(''.join(f'{line}\n' for line in lspci))
        program = programs / 'lspci'
        program.write_text(f'#!/bin/sh\ncat {programs}/devices\n')
        program.chmod(0o700)
        conf = programs / 'agent.conf'
        conf.write_text(_AGENT.format(host=host, provider=provider))
        command = [sys.executable, '-W', 'ignore', '-m', 'tests.cyborg.agent']
        done = subprocess.run(
            [*command, '--config-file', str(self.conf), '--config-file', str(conf)],
            cwd=TREE,
            env=os.environ | {'PATH': f'{programs}:{os.environ["PATH"]}', 'PYTHONPATH': str(TREE)},
            capture_output=True,
            text=True,
            timeout=180,
        )
        if (done.returncode, done.stdout.splitlines()[-1:]) != (0, [provider]):
            raise AgentFailed(done.stdout + done.stderr)


def below(node: Node, owner: str) -> dict[str, Json]:
    """The providers below a node's root that have the trait of an owner: name to all that placement has of it.

    Generations are included: what is equal was not written to in the meantime.
    """
    placement = node.services.placement
    found = {}
    for provider in placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']:
        path = f'/resource_providers/{provider["uuid"]}'
        traits = placement.take('GET', f'{path}/traits')['traits']
        if owner in traits:
            inventories = placement.take('GET', f'{path}/inventories')['inventories']
            whole = {key: value for key, value in provider.items() if key != 'links'}
            found[provider['name']] = whole | {'inventories': inventories, 'traits': sorted(traits)}
    return found


def units(providers: dict[str, Json]) -> dict[str, int]:
    """What providers offer together: class to units that are not reserved."""
    found: Counter[str] = Counter()
    for provider in providers.values():
        found.update({name: unit['total'] - unit['reserved'] for name, unit in provider['inventories'].items()})
    return dict(found)


def number_of_candidates(node: Node, gpus: int) -> int:
    """How many ways placement has to serve a flavor for the machine and this many GPUs of one model."""
    groups = ''.join(f'&resources_{n}=PGPU:1&required_{n}=CUSTOM_NVIDIA_2330' for n in range(gpus))
    policy = '&group_policy=isolate' if gpus > 1 else ''
    query = f'resources=CUSTOM_BAREMETAL:1{groups}{policy}&in_tree={node.uuid}'
    return len(node.services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests'])
