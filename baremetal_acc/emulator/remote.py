# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a test speak to the door and the control? Plain HTTP on loopback, with the standard library only."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

SECONDS = 30


class Remote:
    """The door and the control of a running emulator.

    :param door: URL of the door, as the emulator tells it.
    :param control: URL of the control.
    """

    def __init__(self, door: str, control: str) -> None:
        self.door = door
        self.control = control
        # Never by a proxy of the environment: this is loopback.
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
        """What is really so: components, locks, ways, systems, BMCs, fetches."""
        found: dict[str, Any] = self._ask('GET', 'truth')
        return found

    def history(self, what: str | None = None) -> list[dict[str, Any]]:
        """What has happened to the machine, in order: uploads, what was written, skipped, failed, what came in force, restarts.

        :param what: only that: ``upload``, ``written``, ``skipped``, ``failed``, ``activated``, ``restarted`` or
            ``bmc-restarted``.
        """
        events: list[dict[str, Any]] = self.truth()['history']
        return [one for one in events if what in (None, one['what'])]

    def log(self, *, sessions: bool = False, reads: bool = False) -> list[dict[str, Any]]:
        """The requests that write, in order; with ``sessions`` also logging in and out, with ``reads`` what was read, too."""
        query = '&'.join(f'{name}=1' for name, wanted in (('sessions', sessions), ('reads', reads)) if wanted)
        entries: list[dict[str, Any]] = self._ask('GET', f'log?{query}' if query else 'log')['entries']
        return entries

    def reset_log(self) -> None:
        """Begin the log and the counters anew."""
        self._ask('POST', 'reset-log')

    def counters(self) -> dict[str, Any]:
        """Counts of requests and connections, per BMC."""
        found: dict[str, Any] = self._ask('GET', 'counters')
        return found

    def fault(self, name: str, **rule: Any) -> int:
        """Let something go wrong from now on; tells the id of the rule.

        :raises ValueError: the rule cannot be.
        """
        return int(self._ask('POST', 'faults', {'name': name, **rule})['id'])

    def faults(self) -> list[dict[str, Any]]:
        """The rules in force, with what is left of them and how often they applied."""
        rules: list[dict[str, Any]] = self._ask('GET', 'faults')['faults']
        return rules

    def clear_faults(self, fault_id: int | None = None) -> None:
        """Take away one rule, or all."""
        self._ask('DELETE', 'faults' if fault_id is None else f'faults?id={fault_id}')

    def advance(self, seconds: float) -> None:
        """Move the clock of the machine."""
        self._ask('POST', 'advance', {'seconds': seconds})

    def power(self, reset_type: str, system: str = 'host', *, cause: str = 'POWER_BUTTON') -> None:
        """Press the button of a system; or let it be started by something else.

        :param cause: a name of :class:`baremetal_acc.emulator.parts.Cause`.
        :raises ValueError: it is changing its power already.
        """
        self._ask('POST', 'power', {'system': system, 'reset_type': reset_type, 'cause': cause})

    def devices(self, host: str | None = None) -> dict[str, Any] | None:
        """The cards that the host sees; None while it is off.

        :param host: which one, where the machine has several, here and below; None: any of them.
        """
        query = '' if host is None else f'?{urllib.parse.urlencode({"host": host})}'
        status, body = self._call('GET', f'{self.door}/devices{query}')
        return dict(body['devices']) if status == 200 else None

    def tenant_write(
        self, device: str, image: bytes, *, path: str = 'pcie', component: str | None = None, host: str | None = None
    ) -> dict[str, Any]:
        """The tenant, root on the host, writes firmware in band: ``{"written": bool, "reason": ...}``."""
        given = {'device': device, 'path': path, 'component': component, 'host': host}
        query = {name: value for name, value in given.items() if value}
        return self._door('firmware', query, image)

    def tenant_program(self, device: str, slot: int, image: bytes, *, path: str = 'pcie') -> dict[str, Any]:
        """The tenant, root on the host, programs a slot in band: ``{"written": bool, "reason": ...}``."""
        return self._door('program', {'device': device, 'slot': str(slot), 'path': path}, image)

    def _door(self, verb: str, query: dict[str, str], image: bytes) -> dict[str, Any]:
        _, body = self._call('POST', f'{self.door}/{verb}?{urllib.parse.urlencode(query)}', image)
        return dict(body)
