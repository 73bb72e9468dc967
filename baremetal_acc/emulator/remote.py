# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP client for the host agent API and the control API of a running emulator. It uses the standard library only."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

SECONDS = 30


class Remote:
    """A client of the host agent API and the control API of a running emulator.

    :param door: URL of the host agent API, as the emulator reports it.
    :param control: URL of the control API.
    """

    def __init__(self, door: str, control: str) -> None:
        self.door = door
        self.control = control
        # Without the proxies of the environment: the emulator is on loopback.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def _call(self, method: str, url: str, data: bytes | None = None) -> tuple[int, Any]:
        request = urllib.request.Request(url, data=data, method=method)  # noqa: S310 - our own http URL
        request.add_header('Content-Type', 'application/octet-stream')
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        return status, json.loads(body) if body else None

    def _ask(self, method: str, path: str, document: Any = None) -> Any:
        data = None if document is None else json.dumps(document).encode()
        status, body = self._call(method, f'{self.control}/{path}', data)
        if status >= 400:
            raise ValueError(f'{method} {path}: {status} {body}')
        return body

    def truth(self) -> dict[str, Any]:
        """The true state of the machine: components, locks, in-band paths, systems, BMCs, fetches, history."""
        found: dict[str, Any] = self._ask('GET', 'truth')
        return found

    def history(self, what: str | None = None) -> list[dict[str, Any]]:
        """The events of the machine, in order: uploads, components written, skipped, failed or activated, restarts.

        :param what: only events of this kind: ``upload``, ``written``, ``skipped``, ``failed``, ``activated``, ``restarted`` or
            ``bmc-restarted``.
        """
        events: list[dict[str, Any]] = self.truth()['history']
        return [one for one in events if what in (None, one['what'])]

    def log(self, *, sessions: bool = False, reads: bool = False) -> list[dict[str, Any]]:
        """The requests that write, in order; with ``sessions`` also logins and logouts, with ``reads`` also reads."""
        query = '&'.join(f'{name}=1' for name, wanted in (('sessions', sessions), ('reads', reads)) if wanted)
        entries: list[dict[str, Any]] = self._ask('GET', f'log?{query}' if query else 'log')['entries']
        return entries

    def reset_log(self) -> None:
        """Clear the log, the counters and the history."""
        self._ask('POST', 'reset-log')

    def counters(self) -> dict[str, Any]:
        """Counts of requests and connections, per BMC."""
        found: dict[str, Any] = self._ask('GET', 'counters')
        return found

    def fault(self, name: str, **rule: Any) -> int:
        """Add a fault rule; return its id.

        :raises ValueError: the rule is not valid.
        """
        return int(self._ask('POST', 'faults', {'name': name, **rule})['id'])

    def faults(self) -> list[dict[str, Any]]:
        """The fault rules in force, with how often each still applies and how often it applied."""
        rules: list[dict[str, Any]] = self._ask('GET', 'faults')['faults']
        return rules

    def clear_faults(self, fault_id: int | None = None) -> None:
        """Remove one fault rule, or all but those of habits."""
        self._ask('DELETE', 'faults' if fault_id is None else f'faults?id={fault_id}')

    def advance(self, seconds: float) -> None:
        """Advance the clock of the machine."""
        self._ask('POST', 'advance', {'seconds': seconds})

    def power(self, reset_type: str, system: str = 'host', *, cause: str = 'POWER_BUTTON') -> None:
        """Press the power button of a system, or start the system by another cause.

        :param cause: a name of :class:`baremetal_acc.emulator.parts.Cause`.
        :raises ValueError: the power is already changing.
        """
        self._ask('POST', 'power', {'system': system, 'reset_type': reset_type, 'cause': cause})

    def devices(self, host: str | None = None) -> dict[str, Any] | None:
        """The cards that the host sees; None while the host is off.

        :param host: the host, where the machine has several, here and below; None: any of them.
        """
        query = '' if host is None else f'?{urllib.parse.urlencode({"host": host})}'
        status, body = self._call('GET', f'{self.door}/devices{query}')
        return dict(body['devices']) if status == 200 else None

    def tenant_write(
        self, device: str, image: bytes, *, path: str = 'pcie', component: str | None = None, host: str | None = None
    ) -> dict[str, Any]:
        """Write firmware in band, as a tenant who is root on the host: ``{"written": bool, "reason": ...}``."""
        given = {'device': device, 'path': path, 'component': component, 'host': host}
        query = {name: value for name, value in given.items() if value}
        return self._door('firmware', query, image)

    def tenant_program(self, device: str, slot: int, image: bytes, *, path: str = 'pcie') -> dict[str, Any]:
        """Program a slot in band, as a tenant who is root on the host: ``{"written": bool, "reason": ...}``."""
        return self._door('program', {'device': device, 'slot': str(slot), 'path': path}, image)

    def _door(self, verb: str, query: dict[str, str], image: bytes) -> dict[str, Any]:
        _, body = self._call('POST', f'{self.door}/{verb}?{urllib.parse.urlencode(query)}', image)
        return dict(body)
