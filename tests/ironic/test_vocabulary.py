# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A conductor that starts checks placement's version, and declares the resource classes and traits that flavors may name."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from baremetal_acc_ironic import placement as told_by
from baremetal_acc_ironic import placement_setup
from tests.ironic.placement_case import PlacementCase

BASELINE = """\
format = 1
[[rule]]
name = "functions"
match = { kind = "FPGA" }
functions = { "Slot0" = "gzip" }
[[rule]]
name = "all"
block = ["host-device"]
"""


class _Old(BaseHTTPRequestHandler):
    """A placement of Wallaby, as far as it is asked."""

    def do_GET(self) -> None:
        body = json.dumps({'versions': [{'id': 'v1.0', 'min_version': '1.0', 'max_version': '1.36', 'status': 'CURRENT'}]})
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def old() -> Iterator[ThreadingHTTPServer]:
    """It listens on a port of 127.0.0.1."""
    server = ThreadingHTTPServer(('127.0.0.1', 0), _Old)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class TestAtTheStart(PlacementCase):
    """The first round of a conductor's periodic, before any node is worked on."""

    product = 'fpga-server'
    parameters: dict[str, Any] = {}  # noqa: RUF012
    baseline = BASELINE

    @pytest.fixture(autouse=True)
    def _take_old(self, old: ThreadingHTTPServer) -> None:
        self._old = old

    def setUp(self) -> None:
        super().setUp()
        placement_setup._CONDUCTORS.clear()
        # The migration of Ironic's database, in the first test of a process, switches off all loggers that there were.
        logger = logging.getLogger(placement_setup.__name__)
        logger.disabled = False
        logger.setLevel(logging.INFO)
        self.said: list[tuple[str, str]] = []
        handler = logging.Handler()
        handler.emit = lambda r: self.said.append((r.levelname, r.getMessage()))  # type: ignore[method-assign]
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

    def start(self, times: int = 1) -> list[tuple[str, str]]:
        """A conductor starts, and its periodic comes round. :returns: what it said, with the level."""
        self.said.clear()
        for _ in range(times):
            placement_setup.keep(self.service)
            placement_setup._CONDUCTORS[self.service].busy.acquire()
            placement_setup._CONDUCTORS[self.service].busy.release()
            placement_setup._CONDUCTORS[self.service].due = 0.0
        return list(self.said)

    def use(self, url: str) -> None:
        """Another placement."""
        self.config(endpoint_override=url, group='placement')
        told_by._publisher.cache_clear()

    def test_a_placement_that_is_too_old_is_told_as_an_error_once(self) -> None:
        """With what it lacks and what to do, before any node needs it; and it is asked for nothing but its versions."""
        self.use(f'http://127.0.0.1:{self._old.server_address[1]}')
        [(level, text)] = self.start(times=3)
        assert 'ERROR' == level
        assert 'Accelerators cannot be published' in text
        assert 'highest microversion is 1.36, but 1.37 is needed (upgrade placement to Xena or later)' in text
        assert {'/'} == set(self._old.asked)  # type: ignore[attr-defined]
        assert 3 == len(self._old.asked)  # type: ignore[attr-defined]

    def test_one_that_is_away_is_a_warning_and_asked_again(self) -> None:
        """It may come with the next round; then all is made known."""
        self.use('http://127.0.0.1:9')
        [(level, text)] = self.start(times=2)
        assert 'WARNING' == level
        assert 'no answer' in text
        self.use(self._url)
        said = self.start()
        assert {'INFO'} == {level for level, _ in said}
        found = self.session.get(f'{self._url}/resource_classes/CUSTOM_ACC_FN_GZIP', timeout=60)
        assert 200 == found.status_code, found.text

    def test_nothing_is_asked_where_nothing_is_published(self) -> None:
        """There may be no placement."""
        self.config(publish=False, group='baremetal_acc')
        self.use(f'http://127.0.0.1:{self._old.server_address[1]}')
        placement_setup.keep(self.service)
        assert [] == self._old.asked  # type: ignore[attr-defined]
