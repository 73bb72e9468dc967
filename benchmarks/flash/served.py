# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The BMCs of the benchmark: emulated machines and the images that they can pull, in a process of its own.

One line of JSON says where everything is. The control is plain HTTP on loopback: ``POST /skip`` moves every machine's clock by
as many seconds as the body says, ``GET /truth`` tells what the machines really run and what stands in their own journals,
``GET /cpu`` what this process took. It ends with its standard input. The BMC of a server takes an image that names no target,
for Ironic's own client names none; that of a tray takes packages.
"""

import argparse
import asyncio
import json
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.http_frontend import Knobs
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Task
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.emulator.server import LOOPBACK, Emulator, Serving
from benchmarks.flash import machine
from benchmarks.flash.tray import TRAY

USER, PASSWORD = 'bench', 'bench-only-on-loopback'


class Site:
    """All machines of a run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._images: Path = arguments.images
        self._hardware = TRAY if arguments.tray else machine.SERVER
        self._keys = [f'{machine.BMC}/{self._hardware.item(number)}' for number in range(arguments.cards)]
        self.emulators = [self._emulator(number, arguments) for number in range(arguments.count)]

    def _emulator(self, number: int, arguments: argparse.Namespace) -> Emulator:
        parameters = Parameters(
            gpus=arguments.cards,
            users={'*': (CurrentUser(name=USER, password=PASSWORD),)},
            options={'*': self._hardware.options},
            flash_seconds=arguments.flash_seconds,
            reset_seconds=arguments.reset_seconds,
            parallel_updates=arguments.cards,
            settings={k: v for n in range(arguments.cards) for k, v in self._hardware.locks(n, arguments.locked).items()},
            seed=str(number),
        )
        knobs = Knobs(delay=arguments.delay, slots=arguments.slots)
        return Emulator(Serving(tls=False, knobs=knobs), product=self._hardware.build(parameters, arguments.cards))

    async def start(self) -> dict[str, Any]:
        """Serve everything, and say where."""
        for emulator in self.emulators:
            await emulator.start()
            assert emulator.product is not None
            view = emulator.product.views[machine.BMC]
            if view.fetch is not None:
                view.fetch = _by_name(view, view.fetch)
        application = web.Application()
        application.add_routes(
            [
                web.post('/skip', self._skip),
                web.get('/truth', self._truth),
                web.get('/cpu', self._cpu),
                web.static('/images', self._images),
            ]
        )
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        bmcs = [emulator.bmcs[machine.BMC] for emulator in self.emulators]
        return {
            'control': int(runner.addresses[0][1]),
            'counters': [f'{emulator.control}/counters' for emulator in self.emulators],
            'bmcs': [{'address': b.address, 'username': USER, 'password': PASSWORD, 'system': b.system} for b in bmcs],
        }

    async def _skip(self, request: web.Request) -> web.Response:
        seconds = float(await request.text())
        for emulator in self.emulators:
            assert emulator.product is not None
            emulator.product.machine.clock.advance(seconds)
            emulator.product.machine.settle()
        return web.Response(status=204)

    async def _truth(self, request: web.Request) -> web.Response:
        return web.json_response([self._true(emulator) for emulator in self.emulators])

    def _true(self, emulator: Emulator) -> dict[str, Any]:
        assert emulator.product is not None
        one = emulator.product.machine
        one.settle()
        cards = [one.components[key] for key in self._keys]
        return {
            'new': sum(1 for c in cards if c.active is not None and c.active.version == self._hardware.new),
            'cards': len(cards),
            'closed': sum(1 for key in self._keys if is_closed(one, key)),
            'on': one.host_is_up(),
            'restart': 2 * one.reset_seconds,
            **asdict(read_journal(one.history)),
        }

    async def _cpu(self, request: web.Request) -> web.Response:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return web.json_response(used.ru_utime + used.ru_stime)

    async def stop(self) -> None:
        """End everything."""
        for emulator in self.emulators:
            await emulator.stop()


def is_closed(one: Machine, key: str) -> bool:
    """Whether a lock holds on every way of the host to a component."""
    ways = [way for way in one.ways if way.target == key]
    return bool(ways) and all(any(one.is_closed(lock) for lock in way.locks) for way in ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What a machine has lived through, by its own journal.

    :ivar uploads: images and packages that have arrived; ``starts`` of the host.
    :ivar written: components that were written, each time that they were.
    :ivar slowest: the longest time in seconds from the arrival of an upload to the end of the write of one component of it.
    """

    uploads: int
    starts: int
    written: int
    slowest: float


def read_journal(entries: Iterable[dict[str, Any]]) -> Journal:
    """What stands in a machine's journal."""
    kept = list(entries)
    arrived = {one['task']: float(one['time']) for one in kept if one['what'] == 'upload'}
    writes = [one for one in kept if one['what'] == 'written']
    return Journal(
        uploads=len(arrived),
        starts=sum(1 for one in kept if one['what'] == 'restarted' and one['system'] == 'host'),
        written=len(writes),
        slowest=max((one['time'] - arrived[one['task']] for one in writes), default=0.0),
    )


def _by_name(view: View, fetch: Callable[[Task, str], None]) -> Callable[[Task, str], None]:
    """Who names no target means the card that the image is for, as its name says."""

    def begin(task: Task, uri: str) -> None:
        if not task.targets:
            task.targets = (f'{machine.BMC}/{uri.rpartition("/")[2].removesuffix(".img")}',)
        fetch(task, uri)

    return begin


async def serve(arguments: argparse.Namespace) -> None:
    """Until standard input ends."""
    site = Site(arguments)
    told = await site.start()
    sys.stdout.write(json.dumps(told) + '\n')
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await site.stop()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('images', type=Path, help='folder of images, each named like its firmware item')
    parser.add_argument('--count', type=int, default=1, help='machines')
    parser.add_argument('--cards', type=int, default=1, help='in each; so many updates a server takes at once')
    parser.add_argument('--tray', action='store_true', help='trays that take packages, one update at a time')
    parser.add_argument('--flash-seconds', type=float, default=300.0)
    parser.add_argument('--reset-seconds', type=float, default=15.0, help='to power off, and again to power on')
    parser.add_argument('--delay', type=float, default=0.0, help='delay of each answer in seconds')
    parser.add_argument('--slots', type=int, default=4, help='answers in progress at a time')
    parser.add_argument('--locked', action='store_true', help='start with the locks of the cards closed')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(serve(parser.parse_args()))


if __name__ == '__main__':
    main()
