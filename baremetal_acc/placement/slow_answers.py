# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Say what an API is waited for that does not answer for long, and until when."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
from keystoneauth1.session import TCPKeepAliveAdapter

LONG_SECONDS = 10.0
"""Seconds of a wait after which it is said."""


class SlowAnswers(requests.Session):
    """A session for keystoneauth that says once of each request that its answer takes long.

    :param say: is given one sentence, in a thread of its own.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        for scheme in ('http://', 'https://'):
            self.mount(scheme, TCPKeepAliveAdapter())

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send one request, as the class above does."""
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
