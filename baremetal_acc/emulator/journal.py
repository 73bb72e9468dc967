# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What reached the emulator? Every request that writes, and counts of all requests. Passwords are not kept."""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

# Enough for the longest journey; a test that needs more empties it in between.
MAX_ENTRIES = 10000
_SECRET_WORDS = ('password', 'token', 'secret', 'passwd')


def redact(value: Any) -> Any:
    """JSON without what is secret."""
    if isinstance(value, dict):
        return {
            key: '******' if any(word in key.lower() for word in _SECRET_WORDS) else redact(one) for key, one in value.items()
        }
    if isinstance(value, list):
        return [redact(one) for one in value]
    return value


class Journal:
    """The log of writes, over all BMCs and the host's own way."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=MAX_ENTRIES)
        self._reads: deque[dict[str, Any]] = deque(maxlen=MAX_ENTRIES)
        self._number = 0

    def add(
        self,
        *,
        time: str,
        bmc: str,
        method: str,
        path: str,
        status: int,
        user: str | None,
        body: bytes = b'',
        digest: str | None = None,
        received_bytes: int | None = None,
        document: Any = None,
        is_session: bool = False,
        overlaps: Iterable[str] = (),
    ) -> None:
        """One request that writes. ``status`` 0: the connection was cut and nothing was answered.

        :param overlaps: what was being written on the same card when an image came for it.
        """
        if body and document is None:
            try:
                document = json.loads(body)
            except ValueError:
                document = None
        clean = redact(document)
        if digest is None and body and clean == document:
            # A digest of a body with a password in it would be a way to guess the password.
            digest = f'sha256:{hashlib.sha256(body).hexdigest()}'
        self._number += 1
        self._entries.append(
            {
                'number': self._number,
                'time': time,
                'bmc': bmc,
                'method': method,
                'path': path,
                'status': status,
                'user': user,
                'body': clean,
                'digest': digest,
                'received_bytes': len(body) if received_bytes is None else received_bytes,
                'session': is_session,
                'overlaps': list(overlaps),
            }
        )

    def read(self, *, time: str, bmc: str, path: str, status: int) -> None:
        """One request that reads; they are kept apart, so that many of them push no write out of the log."""
        self._number += 1
        self._reads.append({'number': self._number, 'time': time, 'bmc': bmc, 'method': 'GET', 'path': path, 'status': status})

    def entries(self, *, sessions: bool = False, reads: bool = False) -> list[dict[str, Any]]:
        """The log; logging in and out writes to no device and is left out unless asked for, and so are reads."""
        found = [entry for entry in self._entries if sessions or not entry['session']]
        return sorted([*found, *self._reads], key=lambda entry: int(entry['number'])) if reads else found

    def clear(self) -> None:
        """Begin anew."""
        self._entries.clear()
        self._reads.clear()


class Counters:
    """How often what was asked of one BMC, over how many connections, and how many at a time."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.in_progress = 0
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._requests: Counter[str] = Counter()
        self.connections = 0
        self.peak = self.in_flight
        self.peak_in_progress = self.in_progress
        self.sent_bytes = 0

    def arrived(self, method: str, path_and_query: str) -> None:
        """A request came in."""
        self._requests[f'{method} {path_and_query}'] += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def begun(self) -> None:
        """It got its slot."""
        self.in_progress += 1
        self.peak_in_progress = max(self.peak_in_progress, self.in_progress)

    def describe(self) -> Mapping[str, Any]:
        """The counts as JSON. ``repeated``: GETs of what had been read before."""
        reads = {key: count for key, count in self._requests.items() if key.startswith('GET ')}
        return {
            'total': self._requests.total(),
            'requests': dict(self._requests),
            'repeated': sum(count - 1 for count in reads.values()),
            'connections': self.connections,
            'peak': self.peak,
            'peak_in_progress': self.peak_in_progress,
            'sent_bytes': self.sent_bytes,
        }
