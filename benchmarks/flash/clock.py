# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A clock that skips waiting: computing and sending take the time that they take, and pauses are skipped.

The machines jump with the client, so that a flash of five minutes still takes five. Standard library only: Ironic's client runs
in an environment without us.
"""

import http.client
import threading
import time


class Clock:
    """Seconds since the beginning, as the client and the machines live through them.

    :param control: port of the server's control.
    :ivar skipped: how many of them nobody waited for.
    """

    def __init__(self, control: int) -> None:
        self._control = control
        self._monotonic = time.monotonic
        self._began = time.monotonic()
        self._alone = threading.Lock()
        self.skipped = 0.0

    def now(self) -> float:
        """The time."""
        return self._monotonic() - self._began + self.skipped

    def skip(self, seconds: float) -> None:
        """Let time pass, here and in the machines. Only who knows that nobody else is at work may do this."""
        if seconds <= 0:
            return
        with self._alone:
            connection = http.client.HTTPConnection('127.0.0.1', self._control, timeout=60)
            connection.request('POST', '/skip', body=repr(seconds))
            connection.getresponse().read()
            connection.close()
            self.skipped += seconds
