# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets do not leak, headers are not changed and memory is bounded when a BMC aims at one weak place."""

import pytest

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.errors import BmcError
from baremetal_acc.model.ref import HOST, Ref
from tests.hostile.bmc import Answer, Honest, Request, Sent, head
from tests.hostile.look import faults, look, tree
from tests.hostile.mutate import PASSWORD, dump
from tests.hostile.operate import ITEM, machine

DEEP = b'[' * 90_000 + b']' * 90_000


def answer(request, status, content, **headers):
    """An answer of those bytes."""
    fields = {**{name.replace('_', '-'): value for name, value in headers.items()}, 'Content-Length': str(len(content))}
    return Answer(pieces=[head(status, fields) + content], sent=Sent(method=request.method, target=request.target))


class DeepLogin(Honest):
    """Answers a login with a token, no Location, and a body of 90,000 levels."""

    def answer(self, request: Request) -> Answer:
        return answer(request, 201, DEEP, X_Auth_Token='t') if request.method == 'POST' else super().answer(request)


def test_a_login_that_is_answered_with_a_deeply_nested_body_ends_well(bmc):
    """Where the session lies is not said: it cannot be closed, and nothing else is wrong."""
    script = DeepLogin(tree=tree('dmtf/rackmount', 'open'))
    seen = look(bmc, script)
    assert [] == faults(seen, script)
    assert seen.inventory is not None


class Forgetful(Honest):
    """Ends every session after one answer, and in the end repeats all our secrets."""

    def answer(self, request: Request) -> Answer:
        if request.method == 'GET' and request.target.count('/') > 3:
            if len(self.tokens) > 12:
                return answer(request, 400, dump({'error': {'message': f'you are {PASSWORD}, {self.tokens}'}}))
            used = self.turn(Request(method='TOKEN', target=request.headers.get('x-auth-token', ''), headers={}, body=b''))
            if used:
                return answer(request, 401, b'')
        return super().answer(request)


@pytest.mark.parametrize('concurrency', [1, 4])
def test_the_password_is_redacted_after_many_logins_too(bmc, concurrency):
    """Only so many secrets were remembered: after eight tokens the password was none of them."""
    script = Forgetful(tree=tree('nvidia/gh200', 'open'))
    seen = look(bmc, script, concurrency=concurrency)
    assert len(script.tokens) > 8
    assert [] == faults(seen, script)


class Repeats(Honest):
    """Repeats our password just where its text will be cut."""

    before = 0

    def answer(self, request: Request) -> Answer:
        if request.method == 'GET' and request.target.count('/') > 3:
            self.before += 1
            return answer(request, 400, dump({'error': {'message': 'x' * (270 + self.before % 40) + PASSWORD}}))
        return super().answer(request)


def test_no_half_of_the_password_is_printed_where_a_text_is_cut(bmc):
    """A gap has the BMC's own words, cut at 300 characters."""
    script = Repeats(tree=tree('nvidia/gh200', 'open'))
    seen = look(bmc, script)
    assert script.before > 20
    assert [] == faults(seen, script)


class Notes(Honest):
    """Notes the headers of every request."""

    def answer(self, request: Request) -> Answer:
        self.noted = [*getattr(self, 'noted', []), *request.headers]
        return super().answer(request)

    __slots__ = ('__dict__',)


@pytest.mark.parametrize('etag', ['"x"\r\nX-Evil: yes', '"x"\nX-Evil: yes', '"x"\r\n\r\nGET /', '"\x00"', '"\u20ac"'])
def test_an_etag_of_a_body_adds_no_header_to_a_write(bmc, etag):
    """What a BMC puts into @odata.etag goes into If-Match, and nowhere else."""
    script = Notes(tree=machine())
    bmc.play(script)
    with RedfishDriver().connect(BmcAddress(name=HOST, address=bmc.http)) as connection:
        document = Document(ref=Ref(bmc=HOST, uri=ITEM), body={}, etag=etag)
        with pytest.raises(BmcError):
            connection.writer().patch(document, {'WriteProtected': True})
    bmc.play(None)
    assert 'x-evil' not in script.noted


class Pages(Honest):
    """A collection of pages without end, each with one member of four megabytes."""

    pages = 0

    def answer(self, request: Request) -> Answer:
        if request.target.startswith('/redfish/v1/Chassis') and 'GET' == request.method:
            self.pages += 1
            member = {'@odata.id': f'/redfish/v1/Chassis/{self.pages}', 'Id': 'x', 'Name': 'x', 'Text': 'x' * 4_000_000}
            more = {'Members': [member], 'Members@odata.nextLink': f'/redfish/v1/Chassis?page={self.pages}'}
            return answer(request, 200, dump({'@odata.id': '/redfish/v1/Chassis', 'Name': 'x', **more}))
        return super().answer(request)


def test_pages_without_end_are_bounded_by_their_bytes_too(bmc):
    """200 pages are allowed, and 32 MiB for a look: what comes first ends it."""
    script = Pages(tree=tree('dmtf/rackmount', 'open'))
    seen = look(bmc, script)
    assert [] == faults(seen, script)
    assert script.pages < 12
