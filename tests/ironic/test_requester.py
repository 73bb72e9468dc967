# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who is recorded as the requester of a step, and what is kept of a name that somebody else may have chosen."""

from types import SimpleNamespace
from typing import Any

import pytest
from ironic.conf import CONF

from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.authorization import requester, rights
from baremetal_acc_ironic.state import provision_state
from baremetal_acc_ironic.steps import definitions

VOUCHED = {'token': {'methods': ['password']}}


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> Any:
    """``[DEFAULT] auth_strategy``."""
    CONF.set_override('auth_strategy', getattr(request, 'param', 'keystone'))
    yield
    CONF.clear_override('auth_strategy')


def context(**changes: Any) -> Any:
    values = {
        'user_id': 'u1',
        'user_name': 'alice',
        'project_id': 'p1',
        'project_name': 'demo',
        'roles': ['reader', 'admin', 'admin'],
        'system_scope': None,
        'request_id': 'req-1',
        'auth_token_info': VOUCHED,
    }
    return SimpleNamespace(**(values | changes))


@pytest.mark.usefixtures('strategy')
def test_whom_keystone_vouches_for_is_kept_with_roles_and_scope():
    """It comes back from the node's memory as it was."""
    found = requester.asked(context(), Flow.CLEAN, 'manual cleaning')
    assert ('alice (demo)', 'u1') == (found.by, found.user)
    assert found.requester is not None
    assert (('admin', 'reader'), 'req-1') == (found.requester.roles, found.requester.request_id)
    assert found == decode(requester.RequestContext, encode(found))


@pytest.mark.usefixtures('strategy')
def test_the_operators_token_has_no_project():
    """So people read where it counts."""
    found = requester.of(context(project_id=None, project_name=None, system_scope='all'))
    assert found is not None
    assert 'alice (system)' == found.label


@pytest.mark.usefixtures('strategy')
@pytest.mark.parametrize('info', [None, {}, ''])
def test_a_user_without_a_token_is_nobody(info: Any):
    """And is not mistaken for the conductor, which names none."""
    assert requester.of(context(auth_token_info=info)) is None
    assert 'unknown (service, requested without a token)' == requester.asked(
        context(auth_token_info=info), Flow.SERVICE, 'service'
    ).by  # fmt: skip
    own = context(auth_token_info=None, user_id=None, user_name=None)
    assert ('ironic (automated cleaning)', 'ironic') == (
        (found := requester.asked(own, Flow.CLEAN, 'automated cleaning')).by, found.user
    )  # fmt: skip


@pytest.mark.usefixtures('strategy')
@pytest.mark.parametrize('strategy', ['noauth', 'http_basic'], indirect=True)
def test_where_ironic_asks_nobody_everybody_is_who_they_say():
    """And may what they ask for: so does Ironic itself."""
    found = requester.of(context(auth_token_info=None))
    assert found is not None
    assert 'alice (demo)' == found.label
    own = context(auth_token_info=None, user_id=None, user_name=None)
    assert 'unknown (deploy, Ironic authenticates no user)' == requester.asked(own, Flow.DEPLOY, 'deploy').by
    assert not rights.tenants_own(None, SimpleNamespace(owner='o', lessee='l'))


@pytest.mark.usefixtures('strategy')
def test_names_are_bounded_and_stay_in_one_line():
    """The history's column has 64 characters, and a log has lines."""
    found = requester.asked(
        context(user_id='u' * 1000, user_name='a\nFAKE LINE\x1b[2J' + 'a' * 1000, roles=[f'r{n}' for n in range(1000)]),
        Flow.SERVICE,
        'service',
    )
    assert found.requester is not None
    assert 64 == len(found.user)
    assert all(c.isprintable() for c in found.by)
    assert 300 > len(found.by)
    assert 32 == len(found.requester.roles)


@pytest.mark.parametrize('user', ['u' * 1000, None])
def test_no_record_is_lost_for_a_long_name(user: str | None, monkeypatch: pytest.MonkeyPatch):
    """MySQL takes none that is longer than its column, and the user of a heartbeat is what its client says."""
    kept = []
    monkeypatch.setattr(provision_state.manager_utils, 'node_history_record', lambda *_, **given: kept.append(given['user']))
    monkeypatch.setattr(provision_state.oslo_context, 'get_current', lambda: SimpleNamespace(user_id='f' * 1000))
    provision_state.told(None, 'text', user=user)
    assert [(user or 'f' * 64)[:64]] == kept


@pytest.mark.usefixtures('strategy')
@pytest.mark.parametrize(
    ('changes', 'owner', 'lessee', 'expected'),
    [
        ({}, 'o', 'p1', True),
        ({}, None, 'p1', True),
        ({}, 'p1', 'p1', False),
        ({}, 'p1', None, False),
        ({}, 'o', 'l', False),
        ({'project_id': None, 'system_scope': 'all'}, 'o', None, False),
        ({'auth_token_info': None}, 'o', None, True),
        ({'user_id': None, 'user_name': None, 'auth_token_info': None}, 'p1', None, True),
    ],
)
def test_a_tenant_is_who_leases_the_node_and_does_not_own_it(changes: Any, owner: Any, lessee: Any, expected: bool):
    """Or whom nobody vouches for: a tenant may be behind that."""
    node = SimpleNamespace(owner=owner, lessee=lessee)
    assert expected is rights.tenants_own(requester.of(context(**changes)), node)


def test_a_step_is_the_operators_unless_it_says_otherwise():
    """A new one, too. What Ironic runs by itself is named here once more, and in no flow is anything opened by itself."""
    assert {'inventory_accelerators', 'verify_accelerators', 'program_accelerators'} == {
        name for name, step in definitions.STEPS.items() if not step.operators
    }
    by_itself = {(name, flow) for name, step in definitions.STEPS.items() for flow in step.automatic}
    assert {name for name, _ in by_itself} <= set(definitions.STEPS) - {'unlock_accelerators', 'waive_accelerator_locks'}
    assert {'lock_accelerators'} == {name for name, flow in by_itself if flow is Flow.DEPLOY}
    assert not [name for name, flow in by_itself if flow is Flow.SERVICE]


CLEAN, DEPLOY, SERVICE = Flow.CLEAN, Flow.DEPLOY, Flow.SERVICE


@pytest.mark.parametrize(
    ('name', 'args', 'automated', 'deploy'),
    [
        ('firmware.reconcile_accelerators', {}, False, True),
        ('firmware.lock_accelerators', {}, False, False),
        ('firmware.lock_accelerators', {'devices': ['a']}, False, True),
        ('firmware.unlock_accelerators', {}, True, True),
        ('firmware.waive_accelerator_locks', {}, True, True),
        ('firmware.update_accelerator_firmware', {}, False, True),
        ('firmware.update', {'settings': []}, False, True),
        ('management.update_firmware', {'firmware_images': []}, False, True),
        ('vendor.send_raw', {'raw_bytes': '0x06 0x02'}, False, True),
        ('deploy.update_nvidia_nic_firmware_image', {'images': []}, False, True),
        ('deploy.update_nvidia_nic_firmware_settings', {'settings': []}, False, True),
        ('deploy.container_clean_step', {'container_url': 'x'}, False, True),
        ('bios.apply_configuration', {'settings': []}, False, True),
        ('bios.factory_reset', {}, False, True),
    ],
)
def test_what_is_nobodys_but_the_operators(name: str, args: Any, automated: bool, deploy: bool):
    """By hand each of them; in automated cleaning what nothing but the operator's configuration puts there."""
    interface, step = name.split('.')
    asked = {'interface': interface, 'step': step, 'args': args}
    assert rights.operators_own(asked, SERVICE, by_hand=True)
    assert rights.operators_own(asked, CLEAN, by_hand=True)
    assert automated is rights.operators_own(asked, CLEAN, by_hand=False)
    assert deploy is rights.operators_own(asked, DEPLOY, by_hand=False)


def test_what_is_not_the_operators_alone():
    """Reading, functions, and whatever else Ironic has."""
    for name in ('firmware.verify_accelerators', 'firmware.program_accelerators', 'deploy.deploy', 'raid.create_configuration'):
        interface, step = name.split('.')
        assert not rights.operators_own({'interface': interface, 'step': step}, SERVICE, by_hand=True)
