# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The requests in the log of the demo's BMCs: what they are, their order, and each of them as a line."""

import json
from typing import Any

from baremetal_acc.demo.api import Json
from baremetal_acc.demo.screen import ClaimFailed


def is_upload(entry: Json) -> bool:
    body = entry['body']
    return bool(entry['method'] == 'POST' and isinstance(body, dict) and 'Targets' in body)


def body_value(entry: Json, key: str = 'ResetType') -> Any:
    body = entry['body']
    return body.get(key) if isinstance(body, dict) else None


def request_line(entry: Json) -> str:
    """One request to a BMC in one line."""
    clock = entry['time'].split('T')[-1][:8]
    if is_upload(entry):
        targets = ', '.join(target.rsplit('/', 1)[-1] for target in entry['body']['Targets'])
        return f'{clock}  {entry["bmc"]:4}  image of {entry["received_bytes"]} bytes to {targets}: {entry["status"]}'
    path = entry['path'].removeprefix('/redfish/v1/')
    return f'{clock}  {entry["bmc"]:4}  {entry["method"]} {path} {json.dumps(entry["body"])}: {entry["status"]}'


class RequestOrder:
    """Finds the positions of events in a log of requests."""

    def __init__(self, entries: list[Json]) -> None:
        self._entries = entries

    def first(self, what: str, fits: Any) -> int:
        """The position of the first entry that fits.

        :raises ClaimFailed: no entry fits.
        """
        for position, entry in enumerate(self._entries):
            if fits(entry):
                return position
        raise ClaimFailed(what, 'a request for it in the log of the BMCs', 'no such request')
