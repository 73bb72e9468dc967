# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our client: the whole straight path of every node, from the first look to the verdict. One line of JSON at the end.

Without workers jobs are turned as the command line does it: one thread, each job when it is due. With workers they are turned
as Ironic's periodic does it: once an interval, each node in a worker of its own and never twice at a time, documents read anew
in every turn and the job stored as JSON. The threads are our own; Ironic's database and its locks on nodes are left out.
"""

import argparse
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from oslo_config import cfg

from baremetal_acc import assemble, conf, run
from baremetal_acc.bmc import find
from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.decide.advance import begin
from baremetal_acc.decide.baseline import Exposure, NodeFacts
from baremetal_acc.decide.plan import plan
from baremetal_acc.errors import AccError
from baremetal_acc.model import codec
from baremetal_acc.model.job import Done, Flow, Job, Wait
from baremetal_acc.model.ref import HOST
from baremetal_acc.run import Target, Tools
from benchmarks.flash.clock import Clock

TURNS = 20
"""Ticks in one go while a job says that there is no need to wait, as in Ironic."""


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
    busy: bool = field(default=False)


class Fleet:
    """All nodes of a run."""

    def __init__(self, options: cfg.ConfigOpts, nodes: list[Node], clock: Clock, *, workers: int, timeout: timedelta) -> None:
        self.options = options
        self.nodes = nodes
        self.clock = clock
        self.workers = workers
        self.timeout = timeout
        self.interval = float(options[conf.GROUP].poll_interval)
        self.start = datetime.now(UTC)

    def now(self) -> datetime:
        """The time by our clock."""
        return self.start + timedelta(seconds=self.clock.now())

    def turn(self, node: Node) -> None:
        """Go on with a node until its job waits or ends."""
        tools = self._tools(node)
        job = self._load(node) if node.stored is not None else self._planned(node, tools)
        for _ in range(TURNS):
            job, came = run.tick(job, node.target, tools, self.now())
            node.ticks += 1
            node.stored = json.dumps(codec.encode(job))
            match came:
                case Wait(delay=delay):
                    node.due = self.clock.now() + delay / timedelta(seconds=1)
                    if delay > timedelta(0):
                        return
                case Done():
                    node.ended = self.clock.now()
                    return
                case _:
                    node.ended, node.failed = self.clock.now(), '; '.join(job.reasons)
                    return

    def _tools(self, node: Node) -> Tools:
        made = assemble.tools(self.options, assemble.documents(self.options))

        def save(job: Job) -> None:
            node.stored = json.dumps(codec.encode(job))

        return replace(made, save=save)

    def _load(self, node: Node) -> Job:
        found: Job = codec.decode(Job, json.loads(node.stored or ''))
        return found

    def _planned(self, node: Node, tools: Tools) -> Job:
        inventory = run.observe(node.target, tools, self.now(), tasks=True)
        made = plan(inventory, tools.baseline, node.target.node, tools.catalogue, hold=True)
        if made.refusals:
            raise RuntimeError('; '.join(str(r) for r in made.refusals))
        return begin(
            made,
            identity=node.target.name,
            node=node.target.name,
            flow=Flow.CLEAN if self.workers else Flow.CLI,
            step='reconcile_accelerators',
            lifecycle=1,
            now=self.now(),
            timeout=self.timeout,
        )

    def alone(self) -> None:
        """As the command line: the job that is due next, in this thread."""
        while left := [n for n in self.nodes if n.ended is None]:
            node = min(left, key=lambda n: n.due)
            self.clock.skip(node.due - self.clock.now())
            self.turn(node)

    def together(self) -> None:
        """As Ironic's periodic: once an interval every node that waits and has no worker."""
        running: set[Future[None]] = set()
        due = 0.0
        with ThreadPoolExecutor(self.workers) as pool:
            while any(n.ended is None for n in self.nodes):
                if self.clock.now() >= due:
                    due = self.clock.now() + self.interval
                    for node in self.nodes:
                        if node.ended is None and not node.busy and len(running) < self.workers:
                            node.busy = True
                            running.add(pool.submit(self._in_worker, node))
                if running:
                    ended, running = wait(running, timeout=max(0.0, due - self.clock.now()), return_when=FIRST_COMPLETED)
                    for one in ended:
                        one.result()
                else:
                    self.clock.skip(due - self.clock.now())

    def _in_worker(self, node: Node) -> None:
        try:
            self.turn(node)
        except AccError as exc:
            if not exc.waiting_helps:  # else the next interval tries again, as in Ironic
                node.ended, node.failed = self.clock.now(), str(exc)
        except Exception as exc:  # noqa: BLE001 - as in Ironic: this node has failed, and the others go on
            frames = reversed(traceback.extract_tb(exc.__traceback__))
            where = ' < '.join(f'{frame.name} ({Path(frame.filename).name}:{frame.lineno})' for frame in frames)
            node.ended, node.failed = self.clock.now(), f'{type(exc).__name__}: {exc}; in {where}'
        finally:
            node.busy = False


def main() -> None:
    """Flash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('documents', type=Path, help='folder of baseline.toml and catalogue.toml')
    parser.add_argument('--parallel', type=int, default=1, help='updates that a BMC takes at once, as its operator says')
    parser.add_argument('--workers', type=int, default=0, help='0: alone')
    parser.add_argument('--poll', type=float, default=5.0)
    parser.add_argument('--timeout', type=float, default=7200.0)
    arguments = parser.parse_args()
    told = json.loads(sys.stdin.readline())
    options = cfg.ConfigOpts()
    conf.register(options)
    options([], project='baremetal_acc', default_config_files=[], default_config_dirs=[])
    settings: dict[str, Any] = {
        'baseline': str(arguments.documents / 'baseline.toml'),
        'catalogue': str(arguments.documents / 'catalogue.toml'),
        'poll_interval': arguments.poll,
        'publish': False,
    }
    for name, value in settings.items():
        options.set_override(name, value, group=conf.GROUP)
    nodes = [Node(target=_target(number, bmc, arguments.parallel)) for number, bmc in enumerate(told['bmcs'])]
    find.for_address(nodes[0].target.bmcs[0])  # a plugin is imported when it is first looked for
    clock = Clock(told['control'])
    timeout = timedelta(seconds=arguments.timeout)
    fleet = Fleet(options, nodes, clock, workers=arguments.workers, timeout=timeout)
    cpu = time.process_time()
    work: Callable[[], None] = fleet.together if arguments.workers else fleet.alone
    work()
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
