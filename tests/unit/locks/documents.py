# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Documents that tests of locks are read from, without HTTP, and a device that has resources among them."""

from dataclasses import replace
from typing import Any

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.ref import BmcName, Ref
from tests.unit.planning import values

NOW = values.NOW
TOP = '/redfish/v1'


class Tree:
    """A reader and a writer of documents. One that is a text cannot be read, for that reason; with a code it is refused."""

    session = 'reading-session'

    def __init__(self, name: str = 'dpu', **bodies: Any) -> None:
        self.name = BmcName(name)
        self.bodies: dict[str, Any] = dict(bodies)
        self.asked: list[str] = []
        self.wrote: list[tuple[str, Any]] = []

    def __setitem__(self, uri: str, body: Any) -> None:
        self.bodies[uri] = body

    def __getitem__(self, uri: str) -> Any:
        return self.bodies[uri]

    def get(self, uri: str) -> Document:
        self.asked.append(uri)
        body = self.bodies.get(uri, 'it is not there')
        if isinstance(body, int):
            raise HttpRefused(bmc=self.name, uri=uri, what=f'HTTP {body}', status=body)
        if isinstance(body, str):
            raise BmcError(bmc=self.name, uri=uri, what=body)
        return Document(ref=Ref(bmc=self.name, uri=uri), body=body)

    fresh = collection = get

    def peek(self, uri: str) -> Document | None:
        return None

    def patch(self, document: Document, body: Any) -> None:
        self.wrote.append((document.ref.uri, body))

    def post(self, uri: str, body: Any) -> None:
        self.wrote.append((uri, body))


def device(*uris: str, bmc: str = 'dpu', items: tuple[str, ...] = ()) -> Accelerator:
    refs = tuple(Ref(bmc=BmcName(bmc), uri=uri) for uri in uris)
    firmware = tuple(
        replace(values.component(uri.rsplit('/', 1)[-1]), ref=Ref(bmc=BmcName(bmc), uri=uri), write_protected=False)
        for uri in items
    )
    return values.gpu(refs=refs, firmware=firmware, locks=())


def members(*uris: str) -> dict[str, Any]:
    return {'Members': [{'@odata.id': uri} for uri in uris]}
