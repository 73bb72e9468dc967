# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The WSGI application of real placement for the demo, with the roles of callers added as Keystone would give them.

Placement's ``noauth2`` gives the token ``admin`` the role ``admin`` alone, and POST /reshaper needs ``service``
(placement/auth.py, placement/policies/reshaper.py, 16.0.0). keystoneauth's ``admin_token`` cannot be configured to send
a header of its own, so the roles are added where keystonemiddleware would add them: in front of the application. What
placement does with them is placement's own code, its default policy included.

Any server runs it: ``waitress-serve baremetal_acc.demo.placement_app:application``.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from placement.wsgi.api import application as placement

TOKEN = 'admin'  # noqa: S105 - the one that noauth2 knows
"""The token of the demo's operator. It protects nothing: the services listen on the loopback interface only."""

ROLES = 'admin,service,member,reader'


def with_roles(placement: WSGIApplication) -> WSGIApplication:
    """Add the roles of Ironic's service user in a real cloud to requests with :data:`TOKEN`; other requests are unchanged."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get('HTTP_X_AUTH_TOKEN') == TOKEN:
            environ.setdefault('HTTP_X_ROLES', ROLES)
        return placement(environ, start_response)

    return application


application = with_roles(placement)
