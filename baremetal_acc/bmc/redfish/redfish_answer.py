# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The answer to one Redfish request, in one class that our client and sushy's resources both accept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, kw_only=True)
class RedfishAnswer:
    """An HTTP answer.

    :ivar url: path on the BMC that the answer came from, after redirects.
    :ivar seconds: time that the BMC took, without the time to connect.
    :ivar generation: number of the login (:attr:`.Login.generation`) that the request was sent with.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    seconds: float = 0.0
    generation: int = 0


@dataclass(slots=True, kw_only=True)
class RedfishResponse:
    """An answer with the attributes that sushy's resources read."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    url: str

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.content)


def sushy_response(answer: RedfishAnswer) -> RedfishResponse:
    return RedfishResponse(status_code=answer.status, headers=answer.headers, content=answer.content, url=answer.url)


def parsed_json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
