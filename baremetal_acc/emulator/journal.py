# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The request log of the emulator, with secrets redacted, and request counters per BMC.

The log keeps requests that write and, apart from them, requests that read.
"""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

# Enough for the longest test; a test that needs more clears the log in between.
MAX_ENTRIES = 10000
_SECRET_WORDS = ('password', 'token', 'secret', 'passwd')


def redact(value: Any) -> Any:
    """Replace secrets in JSON by asterisks."""
    if isinstance(value, dict):
        return {
            key: '******' if any(word in key.lower() for word in _SECRET_WORDS) else redact(one) for key, one in value.items()
        }
    if isinstance(value, list):
        return [redact(one) for one in value]
    return value


class RequestJournal:
    """The log of requests, over all BMCs and the host agent API."""

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
        """Log one request that writes. ``status`` 0: the connection was cut and nothing was answered.

        :param overlaps: the components of the same card that were being written when an image for the card arrived.
        """
        if body and document is None:
            try:
                document = json.loads(body)
            except ValueError:
                document = None
        clean = redact(document)
        if digest is None and body and clean == document:
            # With the digest of a body that holds a password, the password could be guessed.
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
        """Log one request that reads. Reads are kept apart, so that many of them do not push writes out of the log."""
        self._number += 1
        self._reads.append({'number': self._number, 'time': time, 'bmc': bmc, 'method': 'GET', 'path': path, 'status': status})

    def entries(self, *, sessions: bool = False, reads: bool = False) -> list[dict[str, Any]]:
        """Return the log. Logins and logouts write to no device; they are left out unless asked for, and so are reads."""
        found = [entry for entry in self._entries if sessions or not entry['session']]
        return sorted([*found, *self._reads], key=lambda entry: int(entry['number'])) if reads else found

    def clear(self) -> None:
        """Clear the log."""
        self._entries.clear()
        self._reads.clear()


class Counters:
    """Counts of the requests to one BMC: per URI, in connections, and at a time."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.in_progress = 0
        self.reset()

    def reset(self) -> None:
        """Reset the counts; requests in flight stay counted as such."""
        self._requests: Counter[str] = Counter()
        self.connections = 0
        self.peak = self.in_flight
        self.peak_in_progress = self.in_progress
        self.sent_bytes = 0

    def arrived(self, method: str, path_and_query: str) -> None:
        """Count a request that arrived."""
        self._requests[f'{method} {path_and_query}'] += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def begun(self) -> None:
        """Count a request that got its slot."""
        self.in_progress += 1
        self.peak_in_progress = max(self.peak_in_progress, self.in_progress)

    def describe(self) -> Mapping[str, Any]:
        """Return the counts as JSON. ``repeated``: the GETs of what had been read before."""
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
