# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our client as the command line turns it: one thread, each job when it is due. One line of JSON at the end.

From the first look to the verdict, with documents read once and the job stored as JSON in every tick.
"""

import argparse
import json
import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from oslo_config import cfg

from baremetal_acc import bootstrap, execution
from baremetal_acc.bmc import registry
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings
from baremetal_acc.execution import Target, Tools
from baremetal_acc.model import codec
from baremetal_acc.model.job import Done, Flow, Job, Wait
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts
from benchmarks.flash.clock import Clock


@dataclass(slots=True)
class Node:
    """One node and its job.

    :ivar due: when to turn it again.
    :ivar ended: when its job was over.
    """

    target: Target
    due: float = 0.0
    ended: float | None = None
    failed: str | None = None
    stored: str | None = None
    ticks: int = 0


class Shell:
    """What the command line is to :func:`baremetal_acc.execution.tick`."""

    def __init__(self, tools: Tools, nodes: list[Node], clock: Clock, *, timeout: timedelta) -> None:
        self.tools = tools
        self.nodes = nodes
        self.clock = clock
        self.timeout = timeout
        self.start = datetime.now(UTC)

    def now(self) -> datetime:
        """The time by our clock."""
        return self.start + timedelta(seconds=self.clock.now())

    def run(self) -> None:
        """Turn the job that is due next until all have ended."""
        while left := [n for n in self.nodes if n.ended is None]:
            node = min(left, key=lambda n: n.due)
            self.clock.skip(node.due - self.clock.now())
            self._tick(node)

    def _tick(self, node: Node) -> None:
        def save(job: Job) -> None:
            node.stored = json.dumps(codec.encode(job))

        tools = replace(self.tools, save=save)
        job = self._load(node) if node.stored is not None else self._planned(node, tools)
        job, came = execution.tick(job, node.target, tools, self.now())
        node.ticks += 1
        save(job)
        match came:
            case Wait(delay=delay):
                node.due = self.clock.now() + delay / timedelta(seconds=1)
            case Done():
                node.ended = self.clock.now()
            case _:
                node.ended, node.failed = self.clock.now(), '; '.join(job.reasons)

    def _load(self, node: Node) -> Job:
        found: Job = codec.decode(Job, json.loads(node.stored or ''))
        return found

    def _planned(self, node: Node, tools: Tools) -> Job:
        inventory = execution.observe(node.target, tools, self.now(), tasks=True)
        made = plan(inventory, tools.baseline, node.target.node, tools.catalogue, hold=True)
        if made.refusals:
            raise RuntimeError('; '.join(str(r) for r in made.refusals))
        return begin(
            made,
            identity=node.target.name,
            node=node.target.name,
            flow=Flow.CLI,
            step='apply',
            lifecycle=1,
            now=self.now(),
            timeout=self.timeout,
        )


def main() -> None:
    """Flash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('documents', type=Path, help='folder of baseline.toml and catalogue.toml')
    parser.add_argument('--parallel', type=int, default=1, help='updates that a BMC takes at once, as its operator says')
    parser.add_argument('--poll', type=float, default=5.0)
    parser.add_argument('--timeout', type=float, default=7200.0)
    arguments = parser.parse_args()
    told = json.loads(sys.stdin.readline())
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project='baremetal_acc', default_config_files=[], default_config_dirs=[])
    values: dict[str, Any] = {
        'baseline': str(arguments.documents / 'baseline.toml'),
        'catalogue': str(arguments.documents / 'catalogue.toml'),
        'poll_interval': arguments.poll,
        'publish': False,
    }
    for name, value in values.items():
        conf.set_override(name, value, group=options.GROUP)
    settings = Settings.from_conf(conf)
    nodes = [Node(target=_target(number, bmc, arguments.parallel)) for number, bmc in enumerate(told['bmcs'])]
    registry.for_address(nodes[0].target.bmcs[0])  # a plugin is imported when it is first looked for
    clock = Clock(told['control'])
    timeout = timedelta(seconds=arguments.timeout)
    tools = bootstrap.tools(settings, bootstrap.documents(settings))
    shell = Shell(tools, nodes, clock, timeout=timeout)
    cpu = time.process_time()
    shell.run()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    found = {
        'ended': [n.ended for n in nodes],
        'failed': sorted({n.failed for n in nodes if n.failed}),
        'failures': sum(1 for n in nodes if n.failed),
        'turns': sum(n.ticks for n in nodes),
        'skipped': clock.skipped,
        'cpu': time.process_time() - cpu,
    }
    print(json.dumps(found))


def _target(number: int, bmc: dict[str, Any], parallel: int) -> Target:
    name = f'node-{number}'
    facts = NodeFacts(name=name, resource_class=None, traits=frozenset(), exposure=Exposure('tenant'))
    return Target(name=name, node=facts, bmcs=(BmcAddress(name=HOST, parallel_updates=parallel, **bmc),))


if __name__ == '__main__':
    os.environ.setdefault('NO_PROXY', '127.0.0.1')
    main()
