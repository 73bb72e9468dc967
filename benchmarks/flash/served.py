# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The BMCs of the benchmark: emulated machines and the images that they can pull, in a process of its own.

One line of JSON says where everything is. The control is plain HTTP on loopback: ``POST /skip`` moves every machine's clock by
as many seconds as the body says, ``GET /truth`` tells what the machines really run, ``GET /cpu`` what this process took. It
ends with its standard input. A BMC takes an image that names no target, for Ironic's own client names none.
"""

import argparse
import asyncio
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from baremetal_acc.emulator.access import User
from baremetal_acc.emulator.front import Knobs
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.parts import Task
from baremetal_acc.emulator.redfish.view import Options, View
from baremetal_acc.emulator.server import LOOPBACK, Emulator, Serving
from benchmarks.flash import machine

USER, PASSWORD = 'bench', 'bench-only-on-loopback'


class Site:
    """All machines of a run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._images: Path = arguments.images
        self.emulators = [self._emulator(number, arguments) for number in range(arguments.count)]

    def _emulator(self, number: int, arguments: argparse.Namespace) -> Emulator:
        parameters = Parameters(
            users={'*': (User(name=USER, password=PASSWORD),)},
            options={'*': Options(strict_targets=False)},
            flash_seconds=arguments.flash_seconds,
            reset_seconds=arguments.reset_seconds,
            parallel_updates=arguments.cards,
            settings={f'GPU_{n}/WriteProtected': arguments.locked for n in range(arguments.cards)},
            seed=str(number),
        )
        knobs = Knobs(delay=arguments.delay, slots=arguments.slots)
        return Emulator(Serving(tls=False, knobs=knobs), product=machine.build(parameters, cards=arguments.cards))

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
        cards = [c for c in one.components.values() if c.device]
        return {
            'new': sum(1 for c in cards if c.active is not None and c.active.version == machine.NEW),
            'cards': len(cards),
            'closed': sum(1 for c in cards if c.write_protect is not None and one.is_closed(c.write_protect)),
            'on': one.host_is_up(),
            'starts': one.systems['host'].resets,
        }

    async def _cpu(self, request: web.Request) -> web.Response:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return web.json_response(used.ru_utime + used.ru_stime)

    async def stop(self) -> None:
        """End everything."""
        for emulator in self.emulators:
            await emulator.stop()


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
    parser.add_argument('images', type=Path, help='folder of images; one is called as the item that it is for')
    parser.add_argument('--count', type=int, default=1, help='machines')
    parser.add_argument('--cards', type=int, default=1, help='in each; so many updates are taken at once')
    parser.add_argument('--flash-seconds', type=float, default=300.0)
    parser.add_argument('--reset-seconds', type=float, default=15.0, help='to power off, and again to power on')
    parser.add_argument('--delay', type=float, default=0.0, help='seconds that every answer takes')
    parser.add_argument('--slots', type=int, default=4, help='answers in progress at a time')
    parser.add_argument('--locked', action='store_true', help='the cards begin with their locks closed')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(serve(parser.parse_args()))


if __name__ == '__main__':
    main()
