# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Report HTTP requests to OpenStack APIs whose answer takes long, with the time at which the wait ends."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
from keystoneauth1.session import TCPKeepAliveAdapter

LONG_SECONDS = 10.0
"""Seconds of a wait after which it is reported."""


class SlowAnswers(requests.Session):
    """A session for keystoneauth that reports once of each request that its answer takes long.

    :param say: gets one sentence, in a thread of its own.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        for scheme in ('http://', 'https://'):
            self.mount(scheme, TCPKeepAliveAdapter())

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send one request as the base class does."""
        timer = threading.Timer(LONG_SECONDS, self._tell, (request, datetime.now(UTC), kwargs.get('timeout')))
        timer.daemon = True
        timer.start()
        try:
            return super().send(request, **kwargs)
        finally:
            timer.cancel()

    def _tell(self, request: requests.PreparedRequest, began: datetime, limit: object) -> None:
        address = urlsplit(str(request.url))
        until = f' (until {began + timedelta(seconds=limit):%H:%M:%S}Z at the latest)' if isinstance(limit, int | float) else ''
        self._say(f'waiting: {address.hostname}:{address.port or address.scheme} has not answered yet{until}')
