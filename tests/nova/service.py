# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Start a real Nova for a test: a process (``tests/nova/compute.py``) that ends with the test that started it."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.conftest import TREE

LIFE_SECONDS = 900.0
"""How long it may live. A whole life of a node took 40 s, and 300 s where seven others worked on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request.

    :ivar logged: level, logger and text of Nova's warnings and errors.
    :ivar sent: method, path and status of what Nova asked placement.
    """

    done: Any
    logged: list[tuple[str, str, str]]
    sent: list[str]

    @property
    def errors(self) -> list[str]:
        """What Nova itself logged as an error. A library of it that is not installed is none."""
        return [text for level, name, text in self.logged if level in ('ERROR', 'CRITICAL') and name.startswith('nova.')]

    @property
    def written(self) -> list[str]:
        """What Nova wrote to placement."""
        return [line for line in self.sent if not line.startswith('GET ')]


@dataclass(slots=True)
class Nova:
    """A nova-compute, and Nova's scheduler.

    :ivar state: a folder for its databases; ``providers`` in it is where it looks for provider.yaml when it starts.
    :ivar refresh: ``[compute] resource_provider_association_refresh``, seconds.
    """

    state: Path
    placement: str
    ironic: str | None = None
    refresh: int = 300
    _process: Any = field(default=None, init=False)
    _late: Any = field(default=None, init=False)

    def do(self, verb: str, **more: Any) -> Answer:
        """Let it do something.

        :raises AssertionError: Nova raised an error.
        """
        self._process.stdin.write(json.dumps({'do': verb, **more}) + '\n')
        self._process.stdin.flush()
        found = self._answer()
        assert found['failed'] is None, found
        return Answer(done=found['done'], logged=[tuple(one) for one in found['logged']], sent=found['sent'])

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(30)
            raise AssertionError((self.state / 'nova.log').read_text()[-4000:])
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Self:
        (self.state / 'providers').mkdir(exist_ok=True)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(('OS_', 'http', 'HTTP'))}
        with open(self.state / 'nova.log', 'wb') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-m', 'tests.nova.compute'],
                cwd=TREE,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._late = threading.Timer(LIFE_SECONDS, self._process.kill)
        self._late.daemon = True
        self._late.start()
        told = {'state': str(self.state), 'placement': self.placement, 'ironic': self.ironic, 'refresh': self.refresh}
        self._process.stdin.write(json.dumps(told) + '\n')
        self._process.stdin.flush()
        self._answer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._late.cancel()
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.stdout.close()
