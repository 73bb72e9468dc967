# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write settings on the condition that nothing has changed, at BMCs whose ETags are not what RFC 9110 asks for."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from baremetal_acc.bmc.driver import Accepted
from baremetal_acc.bmc.redfish.writer import _holds
from baremetal_acc.errors import BmcConflict, BmcRefused
from baremetal_acc.model.inventory import Objection
from baremetal_acc.model.ref import HOST, Ref

SYSTEM = '/redfish/v1/Systems/1'
REF = Ref(bmc=HOST, uri=SYSTEM)
MONITOR = '/redfish/v1/TaskService/TaskMonitors/7'


def _takes(bmc: Any, accepted: Callable[[str | None], int]) -> None:
    """A PATCH is answered by what its If-Match is."""

    def reply(request: Any, context: Any) -> str:
        context.status_code = accepted(request.headers.get('If-Match'))
        return ''

    bmc.replies['PATCH', SYSTEM] = reply


def _written(bmc: Any, meanwhile: Callable[[], object] = lambda: None) -> Any:
    with bmc.connect() as connection:
        writer = connection.writer()
        document = writer.fresh(SYSTEM)
        meanwhile()
        writer.patch(document, {'AssetTag': 'x'})
        return writer


def _conditions(bmc: Any) -> Iterable[str | None]:
    return [r.headers.get('If-Match') for r in bmc.requests if r.method == 'PATCH']


@pytest.mark.parametrize(
    ('tag', 'takes', 'sent'),
    [
        ('"a"', {'"a"'}, ['"a"']),
        ('W/"a"', {'W/"a"'}, ['W/"a"']),
        ('W/"a"', {'"a"'}, ['W/"a"', '"a"']),
        ('W/"a"', {None}, ['W/"a"', '"a"', 'a', None]),
        ('"a"', {None}, ['"a"', 'a', None]),
        ('"a"', {'a'}, ['"a"', 'a']),
        ('"a"', {'*'}, ['"a"', 'a', None, '*']),
        ('a', {'a'}, ['a']),
        ('a', {'"a"'}, ['a', '"a"']),
        ('a', {None}, ['a', '"a"', None]),
        (None, {None}, [None]),
        (None, {'*'}, [None, '*']),
    ],
)
def test_a_condition_that_the_bmc_cannot_honour_is_left_out_in_the_end(
    bmc: Any, tag: str | None, takes: set[str | None], sent: list[str | None]
) -> None:
    """Once a second read has shown that nothing has changed; a condition that it can honour comes first."""
    if tag is not None:
        bmc.etags[SYSTEM] = tag
    _takes(bmc, lambda given: 204 if given in takes else 428 if given is None else 412)
    writer = _written(bmc)
    assert sent == _conditions(bmc)
    assert [REF] * (tag != sent[-1]) * (sent[-1] in (None, '*')) == writer.unconditional
    assert (2 if len(sent) == 1 else 3) == bmc.count('GET', SYSTEM)


def test_what_is_no_etag_and_is_refused_as_a_bad_request_is_left_out(bmc: Any) -> None:
    """The BMC cannot read what it shows."""
    bmc.etags[SYSTEM] = 'no-quotes'
    _takes(bmc, lambda given: 204 if given is None else 400)
    assert [REF] == _written(bmc).unconditional
    assert ['no-quotes', '"no-quotes"', None] == _conditions(bmc)


def test_a_bad_request_with_an_etag_is_that_and_nothing_else(bmc: Any) -> None:
    """The condition can be read: what is wrong is the write, which is sent once."""
    bmc.etags[SYSTEM] = '"1"'
    _takes(bmc, lambda given: 400)
    with pytest.raises(BmcRefused):
        _written(bmc)
    assert ['"1"'] == _conditions(bmc)


def test_an_etag_that_no_header_can_hold_is_not_sent(bmc: Any) -> None:
    """It came in the body: nothing else of the request is made of it."""
    bmc.tree[SYSTEM]['@odata.etag'] = '"a"\r\nX-Evil: 1'
    writer = _written(bmc)
    assert [None] == _conditions(bmc)
    assert [REF] == writer.unconditional


def test_the_etag_of_the_body_is_tried_where_that_of_the_header_is_refused(bmc: Any) -> None:
    """BMCs show two that differ."""
    bmc.etags[SYSTEM] = '"of the header"'
    bmc.tree[SYSTEM]['@odata.etag'] = '"of the body"'
    _takes(bmc, lambda given: 204 if given == '"of the body"' else 412)
    assert [] == _written(bmc).unconditional


def test_a_new_etag_is_the_condition_where_something_else_has_changed(bmc: Any) -> None:
    """What is to be written is as it was judged: the write is sent on the condition of the second read."""
    bmc.etags[SYSTEM] = '"1"'

    def meanwhile() -> None:
        bmc.etags[SYSTEM] = '"2"'
        bmc.tree[SYSTEM]['PowerState'] = 'Off'

    _takes(bmc, lambda given: 204 if given == '"2"' else 412)
    writer = _written(bmc, meanwhile)
    assert ['"1"', '"2"'] == _conditions(bmc)
    assert [] == writer.unconditional


def test_what_has_changed_is_not_written(bmc: Any) -> None:
    """Somebody else has written it: that is said, and nothing is sent with another condition."""
    bmc.etags[SYSTEM] = '"1"'

    def meanwhile() -> None:
        bmc.etags[SYSTEM] = '"2"'
        bmc.tree[SYSTEM]['AssetTag'] = 'of somebody else'

    _takes(bmc, lambda given: 204 if given == bmc.etags[SYSTEM] else 412)
    with pytest.raises(BmcConflict, match='have changed since they were read') as caught:
        _written(bmc, meanwhile)
    assert ['"1"'] == _conditions(bmc)
    assert caught.value.waiting_helps


@pytest.mark.parametrize('code', [412, 428])
def test_a_bmc_that_takes_no_condition_at_all_has_refused_the_write(bmc: Any, code: int) -> None:
    """Waiting does not help, and nobody is told that it changed."""
    bmc.etags[SYSTEM] = 'W/"1"'
    _takes(bmc, lambda given: code)
    with pytest.raises(BmcRefused, match='each ETag that it shows') as caught:
        _written(bmc)
    assert ['W/"1"', '"1"', '1', None, '*'] == _conditions(bmc)
    assert not caught.value.waiting_helps
    assert 'changed' not in str(caught.value)


@pytest.mark.parametrize('name', ['PreconditionFailed', 'HeaderInvalid'])
def test_a_message_names_the_condition_whatever_the_status(bmc: Any, reply: Callable[..., Any], name: str) -> None:
    """It was refused, or could not be read, with HTTP 400."""
    bmc.etags[SYSTEM] = 'W/"1"'
    info = [{'MessageId': f'Base.1.8.{name}'}]
    bmc.replies['PATCH', SYSTEM] = [reply(400, {'error': {'@Message.ExtendedInfo': info}}), reply(204)]
    _written(bmc)
    assert ['W/"1"', '"1"'] == _conditions(bmc)


def test_what_is_accepted_only_is_told_with_its_task(bmc: Any, reply: Callable[..., Any]) -> None:
    """202 with a monitor, and 202 with nothing at all."""
    bmc.replies['PATCH', SYSTEM] = [reply(202, Location=MONITOR), reply(202)]
    assert [Accepted(ref=REF, task=Ref(bmc=HOST, uri=MONITOR))] == _written(bmc).accepted
    assert [Accepted(ref=REF)] == _written(bmc).accepted


@pytest.mark.parametrize('code', [200, 202])
def test_what_an_answer_of_success_says_against_a_write_is_told(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Of the property that it does not change, for a PATCH, and at the top, for an action."""
    info = {'MessageId': 'Base.1.8.PropertyNotWritable', 'Message': 'not writable', 'Severity': 'Warning'}
    bmc.replies['PATCH', SYSTEM] = reply(code, {'AssetTag@Message.ExtendedInfo': [info]})
    assert [Objection(text='not writable', fails=True)] == _written(bmc).objections
    bmc.replies['POST', SYSTEM] = reply(code, {'error': {'@Message.ExtendedInfo': [info]}})
    with bmc.connect() as connection:
        writer = connection.writer()
        writer.post(SYSTEM, {})
    assert [Objection(text='not writable', fails=True)] == writer.objections


@pytest.mark.parametrize('code', [200, 201])
def test_what_is_done_is_not_followed(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Whether it took effect is seen by reading."""
    bmc.replies['PATCH', SYSTEM] = reply(code, {'@odata.id': SYSTEM, 'AssetTag': 'x'})
    assert [] == _written(bmc).accepted
    assert 1 == bmc.count('GET', SYSTEM)


@pytest.mark.parametrize('code', [200, 204])
def test_what_is_answered_with_success_and_not_shown_yet_is_accepted_only(
    bmc: Any, reply: Callable[..., Any], code: int
) -> None:
    """BMCs hand a change on, and show what was there before until it is made."""
    bmc.tree[SYSTEM]['AssetTag'] = 'before'
    bmc.replies['PATCH', SYSTEM] = reply(code, {'@odata.id': SYSTEM, 'AssetTag': 'before'} if code == 200 else '')
    assert [Accepted(ref=REF, said=False)] == _written(bmc).accepted


@pytest.mark.parametrize(
    ('shown', 'written', 'holds'),
    [
        ({'a': 1, 'b': 2}, {'a': 1}, True),
        ({'a': 1}, {'a': 2}, False),
        ({}, {'a': 1}, False),
        ({'Oem': {'X': {'on': False, 'y': 1}}}, {'Oem': {'X': {'on': False}}}, True),
        ({'Oem': {'X': None}}, {'Oem': {'X': {'on': False}}}, False),
        ({'l': [{'on': True}, {'on': False}]}, {'l': [{}, {'on': False}]}, True),
        ({'l': [{'on': True}]}, {'l': [{}, {'on': False}]}, False),
        ([], {'a': 1}, False),
    ],
)
def test_a_resource_shows_what_was_written_where_it_has_each_value_of_it(shown: object, written: object, holds: bool) -> None:
    """An element of an array that was left out may be anything."""
    assert holds == _holds(shown, written)


def test_a_task_that_has_ended_well_in_the_answer_itself_is_not_followed(bmc: Any, reply: Callable[..., Any]) -> None:
    """Its body is the Task, Completed."""
    body = {'@odata.id': '/redfish/v1/TaskService/Tasks/1', '@odata.type': '#Task.v1_7_4.Task', 'TaskState': 'Completed'}
    bmc.replies['PATCH', SYSTEM] = reply(202, json.dumps(body))
    assert [] == _written(bmc).accepted
