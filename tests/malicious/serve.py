# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the command many times but import it once: one process imports it, and forks for each run.

Each run is a process of its own with its exit code, output, folder and environment, as it is for an operator. Asked by lines
of JSON on standard input, answered by lines of JSON on standard output: the code, negative for a signal. It has no threads.
"""

import json
import os
import resource
import signal
import sys
from importlib import metadata

from baremetal_acc.cli import main
from baremetal_acc.cli.commands import apply, catalogue, plan  # noqa: F401
from baremetal_acc.images import fetch  # noqa: F401 - imported once, for every run
from baremetal_acc.images.trust import roots, signature  # noqa: F401 - imported once, for every run

MAX_FILE = 64 * 1024 * 1024
"""What a run may write to one file: an endless image that is not refused in time fills no disk of ours."""


def _become(asked: dict[str, object]) -> list[str]:
    """The child: what the operator's shell would have set up."""
    signal.alarm(int(str(asked['seconds'])))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
    os.chdir(str(asked['folder']))
    os.environ.clear()
    os.environ.update(dict(asked['environ']))
    for descriptor, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, str(asked['out']), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, str(asked['err']), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    return list(asked['arguments'])


def _import_plugins() -> None:
    """What the command would import when it runs: drivers, locks, and how tables are printed."""
    for group in ('baremetal_acc.bmc', 'baremetal_acc.locks', 'cliff.formatter.list'):
        for entry in metadata.entry_points(group=group):
            entry.load()


if __name__ == '__main__':
    _import_plugins()
    for line in iter(sys.stdin.readline, ''):
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            sys.exit(main.main(_become(wanted)))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({'code': os.waitstatus_to_exitcode(status)}) + '\n')
        sys.stdout.flush()
