# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A real placement that counts what it is asked: a WSGI application for waitress. ``GET /-/counts`` tells, and sets back.

Counting here costs nobody a call, and no client can forget one. What is there is :mod:`baremetal_acc.demo.placement_app`.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

COUNTS = '/-/counts'

_UUID = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')
_NAME = re.compile(r'(/traits|/resource_classes)/\w+')


def kind(method: str, path: str) -> str:
    """A request without what is different in each: ``PUT /resource_providers/{uuid}/traits``."""
    return f'{method} {_NAME.sub(lambda found: f"{found[1]}/{{name}}", _UUID.sub("{uuid}", path))}'


class Counting:
    """Placement, and how often it was asked for what.

    :ivar cpu: seconds of a processor that placement has worked: what else this machine does is not in it.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.asked: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.cpu = 0.0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """One request."""
        path = environ.get('PATH_INFO', '')
        if path == COUNTS:
            return self._tell(start_response)
        what = kind(environ['REQUEST_METHOD'], path)

        def starting(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            if int(status[:3]) >= 500:
                with self._lock:
                    self.failed[f'{what} {status[:3]}'] += 1
            return start_response(status, headers, *more)

        began = time.thread_time()
        answer = list(self._application(environ, starting))
        with self._lock:
            self.asked[what] += 1
            self.cpu += time.thread_time() - began
        return answer

    def _tell(self, start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            found = {'asked': dict(self.asked), 'failed': dict(self.failed), 'cpu': self.cpu}
            self._clear()
        body = json.dumps(found).encode()
        start_response('200 OK', [('Content-Type', 'application/json'), ('Content-Length', str(len(body)))])
        return [body]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Placement, made at the first request: its database's tables take their time."""
    return _placement()(environ, start_response)


_made: list[Counting] = []
_making = threading.Lock()


def _placement() -> Counting:
    with _making:
        if not _made:
            from baremetal_acc.demo.placement_app import application as placement

            _made.append(Counting(placement))
    return _made[0]
