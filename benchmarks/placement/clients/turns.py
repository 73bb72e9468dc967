# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol of a timed client: one request in a line of JSON, one answer with its seconds in a line.

Clients of peers run in an environment without us: this file lies beside them, and needs nothing but Python.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Device = dict[str, Any]
"""``uuid``, ``name``, ``resource_class``, ``traits``."""


class Client(Protocol):
    """One process that tells placement of devices."""

    def tell(self, root: str, devices: list[Device]) -> None:
        """Let placement know of these devices below a root, as they are now."""

    def withdraw(self, root: str, devices: list[Device], number: int) -> None:
        """Take one device out of service."""


def serve(make: Callable[[str], Client]) -> None:
    """Turn a client until standard input ends. ``make`` gets the URL of placement."""
    answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
    os.dup2(2, 1)  # a library that prints is not to be in the way
    client: Client | None = None
    url = ''
    for line in sys.stdin:
        asked = json.loads(line)
        found: dict[str, Any] = {}
        try:
            if 'url' in asked:
                url = asked['url']
            if asked['do'] == 'begin':
                client = make(url)
            else:
                assert client is not None
                cpu = time.process_time()
                found['seconds'] = turn(client, asked)
                found['cpu'] = time.process_time() - cpu
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
            found['error'] = f'{type(exc).__name__}: {exc}'[:500]
        answers.write(json.dumps(found) + '\n')
        answers.flush()


def turn(client: Client, asked: dict[str, Any]) -> float:
    """One case; the seconds that it took."""
    began = time.perf_counter()
    if asked['do'] == 'withdraw':
        client.withdraw(asked['root'], asked['devices'], asked['number'])
    elif asked['do'] == 'tell':
        client.tell(asked['root'], asked['devices'])
    else:
        with ThreadPoolExecutor(len(asked['nodes'])) as threads:
            list(threads.map(lambda node: client.tell(node['root'], node['devices']), asked['nodes']))
    return time.perf_counter() - began
