# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``python meddling.py WHEN WHAT pool apply --execute ...``: run a command, and interfere with it at one moment.

WHEN is ``before:ACT`` (the act is stored as next, and nothing of it was done) or ``after:ACT`` (the act was done, and nothing
more was stored); ACT is ``withdraw``, ``manage``, ``clean``, ``provide`` or ``put_back``. WHAT is ``kill``, or a JSON object of
bodies by URL, for PUT requests that are sent to placement at that moment as another client would send them.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import requests

from baremetal_acc.cli.main import main
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.pools.ironic import IronicApi


def meddle(what: str) -> None:
    """Do it, once."""
    if what == 'kill':
        os.kill(os.getpid(), signal.SIGKILL)
    for url, body in json.loads(what).items():
        headers = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.38'}
        answer = requests.put(url, json=body, headers=headers, timeout=30)
        sys.stderr.write(f'meddled: {answer.status_code}\n')


def wrap(owner: type, name: str, act: Callable[[tuple[Any, ...]], str], when: str, what: str) -> None:
    """Come in between before or after calls of a method that are that act."""
    real = getattr(owner, name)
    left = [1]

    def call(self: Any, *args: Any, **more: Any) -> Any:
        ours = act(args) == when.partition(':')[2] and left
        if ours and when.startswith('before:'):
            left.clear()
            meddle(what)
        found = real(self, *args, **more)
        if ours and when.startswith('after:') and left:
            left.clear()
            meddle(what)
        return found

    setattr(owner, name, call)


if __name__ == '__main__':
    _, moment, deed, *command = sys.argv
    wrap(IronicApi, 'provision', lambda args: str(args[1]), moment, deed)
    wrap(NodeWithdrawal, 'withdraw', lambda _: 'withdraw', moment, deed)
    wrap(NodeWithdrawal, 'put_back', lambda _: 'put_back', moment, deed)
    sys.exit(main(command))
