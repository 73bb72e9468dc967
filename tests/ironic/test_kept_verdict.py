# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The verdict on each card and write path, as ``baremetal node inventory save`` returns it, over the life of a node."""

import copy
import json
import os
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.drivers.modules import inspect_utils

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import VerdictEnd
from baremetal_acc.planning.trouble import TroubleText
from baremetal_acc.planning.watch_alarms import Alarm, TroubleKind, WatchTrouble
from baremetal_acc.render import verdict_ends
from baremetal_acc_ironic import hook
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState, Opened, StoredVerdict
from tests.cli.test_schemas import closed
from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD
from tests.ironic.test_custody import REQUIRED, CustodyCase
from tests.ironic.test_kept import InspectionCase

DOC = Path(__file__).parents[2] / 'doc/source'
SCHEMA = closed(json.loads((DOC / 'schemas/node-verdict.json').read_text(encoding='utf-8')))
EXAMPLE = DOC / 'reference/node-verdict-example.json'


class VerdictCase(CustodyCase):
    """Two GPUs that run what the rules want: cleaning only locks them."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD)
    parameters: Mapping[str, Any] = {'gpus': 2, 'flash_seconds': 0.1, 'reset_seconds': 0.05}

    def part(self) -> dict[str, Any]:
        """Our part of the plugin data, as the API returns it."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            data = inspect_utils.get_inspection_data(task.node, task.context)['plugin_data']
        found: dict[str, Any] = json.loads(json.dumps(data))[record.PLUGIN_KEY]
        return found

    def verdict(self) -> dict[str, Any]:
        """The stored verdict; it is as the schema says."""
        found: dict[str, Any] = self.part()['verdict']
        jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(found)
        return found

    def cause(self) -> str | None:
        """Why it is not current; None: it is."""
        found = self.verdict()
        assert (found['ended'] is None) is found['current']
        return None if found['ended'] is None else found['ended']['cause']


class TestWritten(VerdictCase):
    """Cards that cleaning writes, since their rules require a chain of custody."""

    baseline = REQUIRED

    def test_a_cleaned_node_shows_each_card_and_path_with_lock_custody_lifecycle_and_release(self) -> None:
        """After a deploy that failed, whose verdict says why. The digest in ``driver_internal_info`` is that of the part."""
        self.failed_deploy()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        found = self.verdict()
        assert (True, [], 'reconcile_accelerators', 'clean') == (found['met'], found['reasons'], found['by'], found['flow'])
        assert f'baremetal-acc {metadata.version("baremetal-acc")}' == found['release']
        assert self.node_state.lifecycle == found['lifecycle']
        read = [a['id'] for a in self.part()['inventory']['accelerators']]
        assert read == [c['id'] for c in found['cards']]
        for number, card in enumerate(found['cards']):
            assert (True, []) == (card['met'], card['reasons'])
            assert [('host-device', 'locked-verified', True, 'gpus')] == [
                (p['path'], p['state'], p['met'], p['rule']) for p in card['paths']
            ]
            lock = card['paths'][0]['locks'][0]
            assert f'/redfish/v1/Chassis/HGX_ERoT_GPU_{number}' == lock['uri']
            assert lock['mechanism'] in {r['mechanism'] for r in self.part()['inventory']['accelerators'][number]['locks']}
            assert 'InbandUpdatePolicyEnabled' in lock['lock']
            assert ('written', True, []) == tuple(card['custody'][k] for k in ('origin', 'holds', 'accepted_by'))
            assert datetime.fromisoformat(card['custody']['since']) < datetime.fromisoformat(found['at'])
        known = self.node.driver_internal_info['baremetal_acc']['verdict']
        assert record.digest_of(self.part()) == known['digest']
        self.page_shows(self.part())
        script = dict[str, Any]()
        page = (DOC / 'reference/node_verdict.rst').read_text(encoding='utf-8')
        exec(textwrap.dedent(page.partition('.. code-block:: python\n')[2].partition('\nAn earlier')[0]), script)
        node = {'driver_internal_info': json.loads(json.dumps(self.node.driver_internal_info))}
        saved = {'plugin_data': {'baremetal_acc': self.part()}}
        assert found == script['verdict_of'](saved, node)
        node['driver_internal_info']['baremetal_acc']['lifecycle'] += 1
        assert script['verdict_of'](saved, node) is None
        node['driver_internal_info']['baremetal_acc']['lifecycle'] -= 1
        saved['plugin_data']['baremetal_acc']['verdict']['met'] = False
        assert script['verdict_of'](saved, node) is None

    def page_shows(self, part: dict[str, Any]) -> None:
        """The example of the page is this verdict, but for times, the release and what differs between machines."""
        shown = {'verdict': part['verdict'] | {'cards': part['verdict']['cards'][:1]}}
        text = json.dumps(shown, indent=2)
        text = re.sub(r'20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?', r'2026-07-01\g<1>09:30:00', text)
        text = re.sub(r'"baremetal-acc [^"]+"', '"baremetal-acc 1.0.0"', text) + '\n'
        if os.environ.get('BAREMETAL_ACC_TRANSCRIPTS') == 'write':
            EXAMPLE.write_text(text, encoding='utf-8')
        assert EXAMPLE.read_text(encoding='utf-8') == text, 'write it with BAREMETAL_ACC_TRANSCRIPTS=write'

    def failed_deploy(self) -> None:
        """The chain of custody is missing: the locks are met, the cards are not."""
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        found = self.verdict()
        assert (False, 'deploy', None) == (found['met'], found['flow'], self.cause())
        assert {(True, False)} == {(c['paths'][0]['met'], c['met']) for c in found['cards']}
        assert all(any('no chain has begun' in r for r in c['reasons']) for c in found['cards'])


class TestVerdict(VerdictCase):
    """What is stored, and when it ends."""

    def test_a_verdict_ends_with_the_first_write_to_a_card(self) -> None:
        """Before anything is written, and for good where the job ends without a read of the cards."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (None, False) == (self.cause(), self.verdict()['met'])
        seen: list[VerdictEnd | None] = []
        mark = record.mark

        def watched(node: Any, known: StoredVerdict) -> bool:
            seen.append(known.ended)
            assert {False} == self.locked(), 'nothing was written before'
            return mark(node, known)

        with mock.patch.object(record, 'mark', side_effect=watched):
            self.clean()
            assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [VerdictEnd.WRITTEN] == seen
        assert (None, True) == (self.cause(), self.verdict()['met'])

    def test_a_failed_verification_writes_its_verdict(self) -> None:
        """It names the path, the lock and the reason, and what the error says. It ends with one that cannot read the cards."""
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.set_locks(closed=False)
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        found = self.verdict()
        assert (False, True, 'verify_accelerators') == (found['met'], found['current'], found['by'])
        for card in found['cards']:
            assert not card['met']
            assert [('host-device', 'unlocked', False)] == [(p['path'], p['state'], p['met']) for p in card['paths']]
            assert 'unlocked' in card['paths'][0]['found']
            assert any('lock host-device' in reason for reason in card['reasons'])
            assert set(card['reasons']) <= {r for r in card['reasons'] if r in self.node.last_error}
        # The next one cannot read the cards.
        self.clear()
        self.machine.fault('password-rotated')
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert 'unread' == self.cause()

    def test_a_verdict_ends_with_the_hand_over_and_with_the_return(self) -> None:
        """The deploy's verdict stays readable while a tenant has the node, marked."""
        self.to_available()
        before = self.verdict()['lifecycle']
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        found = self.verdict()
        assert ('handed-over', True, 'deploy', before) == (self.cause(), found['met'], found['flow'], found['lifecycle'])
        assert before < self.node_state.lifecycle
        assert verdict_ends.sentence(VerdictEnd.HANDED_OVER) == found['ended']['text']
        self.serve('verify_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (None, 'service') == (self.cause(), self.verdict()['flow'])
        self.node.refresh()
        node_store.store(self.node, self.node_state.came_back())
        assert 'returned' == self.cause()

    def test_an_acceptance_is_shown_with_who_gave_it_and_an_unlock_with_open_locks(self) -> None:
        """Until when, and why."""
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        until = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0).isoformat()
        step = {'step': 'accept_accelerator_custody', 'args': {'until': until, 'reason': 'new from the vendor'}}
        with mock.patch('baremetal_acc_ironic.steps.statement.made_by') as who:
            who.return_value.by, who.return_value.user = 'the operator', None
            self.clean(step)
            assert states.MANAGEABLE == self.settle(), self.node.last_error
        for card in self.verdict()['cards']:
            custody = card['custody']
            assert (['the operator'], 'new from the vendor', 'accepted') == tuple(
                custody[k] for k in ('accepted_by', 'reason', 'origin')
            )
            assert until == custody['until']
        self.clean('unlock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        found = self.verdict()
        assert (None, False) == (self.cause(), found['met'])
        assert {'unlocked'} == {p['state'] for c in found['cards'] for p in c['paths']}
        assert any('locks were opened' in r for r in found['reasons'])

    def test_a_read_of_ironics_own_keeps_the_verdict_of_the_same_cards_and_replaces_that_of_others(self) -> None:
        """Ironic asks for firmware versions at the end of each flow."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        before = self.verdict()

        def reread() -> None:
            self.node.refresh()
            node_store.store(self.node, replace(self.node_state, looked=None))
            with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
                task.driver.firmware.cache_firmware_components(task)

        first = self.part()['inventory']['at']
        reread()
        assert before == self.verdict()
        assert first < self.part()['inventory']['at']
        assert record.digest_of(self.part()) == self.node_state.verdict.digest  # type: ignore[union-attr]
        self.set_locks(closed=True)
        reread()
        found = self.verdict()
        assert (False, 'cache_firmware_components', None) == (found['met'], found['by'], self.cause())

    def test_a_mark_that_cannot_be_written_is_written_later(self) -> None:
        """And the state of the node is stored nevertheless. A state that was loaded before ends nothing again."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        stale = self.node_state
        with mock.patch.object(inspect_utils, 'store_inspection_data', side_effect=exception.SwiftOperationError('away')):
            node_store.store(self.node, self.node_state.given_away(datetime.now(UTC)))
        assert self.node_state.handed_over
        assert self.cause() is None
        node_store.store(self.node, self.node_state)
        assert 'handed-over' == self.cause()
        node_store.store(self.node, stale)
        assert 'handed-over' == self.cause()
        assert self.node_state.verdict is not None
        assert VerdictEnd.HANDED_OVER is self.node_state.verdict.ended
        # What a conductor that died before it stored the state has left.
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            data = inspect_utils.get_inspection_data(task.node, task.context)
            part = copy.deepcopy(data['plugin_data'][record.PLUGIN_KEY])
            part['verdict']['by'] = 'another'
            inspect_utils.store_inspection_data(task.node, {}, {record.PLUGIN_KEY: part}, task.context)
        node_store.store(self.node, self.node_state.came_back())
        assert {'format', 'inventory'} == self.part().keys()


class TestForged(InspectionCase, VerdictCase):
    """A ramdisk has sent an inspection of its own without our hook, and the next inspection runs our hook."""

    def posts(self, part: Any) -> Any:
        """What the hook keeps where this is stored as our part; None: nothing."""
        data = dict[str, Any]()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            inspect_utils.store_inspection_data(task.node, {}, {record.PLUGIN_KEY: part}, task.context)
            hook.AcceleratorsKept().preprocess(task, {}, data)
        return data.get(record.PLUGIN_KEY)

    def test_a_ramdisk_cannot_forge_a_verdict(self) -> None:
        """Whatever it changes of the verdict, or of the inventory next to it."""
        before = self.part()
        assert not before['verdict']['met']
        with mock.patch('baremetal_acc_ironic.firmware.AccFirmware.cache_firmware_components'):
            self.inspect('agent')
            self.ramdisk_calls(baremetal_acc={'verdict': 'forged'})
        assert {'verdict': 'forged'} == self.part(), 'Ironic stores whatever it is sent'
        assert before == self.posts(before)

        def forged(*path: Any, value: Any) -> dict[str, Any]:
            part = copy.deepcopy(before)
            inner = part
            for key in path[:-1]:
                inner = inner[key]
            assert value != inner[path[-1]]
            inner[path[-1]] = value
            return part

        for hostile in (
            forged('verdict', 'met', value=True),
            forged('verdict', 'cards', 0, 'paths', 0, 'state', value='locked-verified'),
            forged('verdict', 'lifecycle', value=7),
            forged('inventory', 'accelerators', 0, 'locks', 0, 'state', value='locked-verified'),
            forged('verdict', value=[]),
            before | {'verdict': before['verdict'] | {'more': 'text'}},
            {'format': 1, 'inventory': before['inventory']},
            {'verdict': before['verdict']},
        ):
            assert self.posts(hostile) is None
        assert before == self.posts(before | {'certificate': 'forged'}), 'a further key is not ours'

    def test_a_ramdisk_cannot_make_an_ended_verdict_current(self) -> None:
        """It may have read it, and sends all of it but the mark."""
        node_store.store(self.node, self.node_state.came_back())
        ended = self.part()
        assert not ended['verdict']['current']
        assert ended == self.posts(ended | {'verdict': ended['verdict'] | record.CURRENT})

    def test_a_digest_of_an_earlier_version_counts_for_the_inventory_alone(self) -> None:
        """That is what it covers."""
        before = self.part()
        node_store.store(self.node, replace(self.node_state, verdict=None))
        genuine = {'format': 1, 'inventory': before['inventory']}
        assert genuine == self.posts(genuine)
        assert genuine == self.posts(before | {'verdict': before['verdict'] | {'met': True}})
        fewer = before['inventory'] | {'accelerators': before['inventory']['accelerators'][:1]}
        assert self.posts({'format': 1, 'inventory': fewer}) is None


AT = datetime(2026, 7, 1, tzinfo=UTC)
CARD = AcceleratorId('uuid:1')
KNOWN = NodeState(lifecycle=3, verdict=StoredVerdict(digest='d', lifecycle=3, at=AT))


def alarm(since: datetime, *, told: bool = True) -> Alarm:
    """A change that the watch has found."""
    trouble = WatchTrouble(kind=TroubleKind.LOCK, device=CARD, subject='lock', fact=TroubleText(text='open'))
    return Alarm(trouble=trouble, since=since, told=told)


@pytest.mark.parametrize(
    ('state', 'end'),
    [
        (KNOWN, None),
        (replace(KNOWN, verdict=None, lifecycle=4), None),
        (replace(KNOWN, lifecycle=4, handed_over=True), VerdictEnd.HANDED_OVER),
        (replace(KNOWN, lifecycle=4), VerdictEnd.RETURNED),
        (replace(KNOWN, exposed=frozenset({CARD})), VerdictEnd.EXPOSED),
        (replace(KNOWN, opened=Opened(since=AT, why='unlock')), VerdictEnd.OPENED),
        (replace(KNOWN, untended=(alarm(AT + timedelta(hours=1)),)), VerdictEnd.ALARM),
        (replace(KNOWN, untended=(alarm(AT + timedelta(hours=1), told=False),)), None),
        (replace(KNOWN, untended=(alarm(AT - timedelta(hours=1)),)), None),
    ],
)
def test_what_ends_a_verdict(state: NodeState, end: VerdictEnd | None) -> None:
    """By the state of the node alone; what was so when the verdict was taken ends nothing."""
    assert end is state.verdict_end


def test_what_was_so_before_ends_nothing() -> None:
    """And a verdict that has ended stays so."""
    known = replace(KNOWN.verdict, exposed=frozenset({CARD}), opened=True)  # type: ignore[type-var]
    same = replace(KNOWN, verdict=known, exposed=frozenset({CARD}), opened=Opened(since=AT, why='unlock'))
    assert same.verdict_end is None
    assert VerdictEnd.UNREAD is replace(KNOWN, verdict=replace(known, ended=VerdictEnd.UNREAD)).verdict_end


@pytest.mark.parametrize('end', VerdictEnd)
def test_every_end_has_a_sentence_and_is_in_the_schema(end: VerdictEnd) -> None:
    """The set is closed."""
    assert verdict_ends.sentence(end)
    (_, ended) = SCHEMA['properties']['ended']['oneOf']
    assert {e.value for e in VerdictEnd} == set(ended['properties']['cause']['enum'])
