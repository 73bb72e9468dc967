# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of roles: Ironic's real API behind the real keystonemiddleware, in front of a real conductor."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ironic.api import VERSION, configure_middleware, with_api
from tests.ironic.case import IronicCase
from tests.ironic.keystone import Keystone, configure, keystone

STRANGER = 'c' * 32


class RolesCase(IronicCase):
    """A node with owner and lessee."""

    middleware = ['baremetal-acc-policy']  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _keystone(self) -> Iterator[None]:
        with keystone() as made:
            self._stand_in = made
            yield

    def setUp(self) -> None:
        super().setUp()
        self.config(auth_strategy='keystone')
        configure_middleware(self, self.middleware)
        configure(self, self._stand_in.address)
        self.app = with_api(self)

    @property
    def keystone(self) -> Keystone:
        """The stand-in."""
        return self._stand_in

    def token(self, name: str | None) -> dict[str, str]:
        """Headers of a request with this token; None: without one."""
        return VERSION | ({} if name is None else {'X-Auth-Token': name})

    def ask(self, who: str | None, method: str, path: str, body: Any = None) -> Any:
        """Any answer of the API."""
        more = {} if body is None else {'params': body}
        call = getattr(self.app, f'{method.lower()}_json' if method != 'GET' else 'get')
        return call(path, headers=self.token(who), expect_errors=True, **more)
