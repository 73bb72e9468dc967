# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which action cycles the standby power of a machine: those that are documented, where they advertise it, and no other."""

import pytest

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish import standby
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.errors import BmcRefusalReason, BmcRefused
from baremetal_acc.model.ref import Ref

SYSTEM, TRAY, OTHER = '/redfish/v1/Systems/1', '/redfish/v1/Chassis/BMC_0', '/redfish/v1/Chassis/9'


def view(uri, actions=None, chassis=()):
    links = {'Links': {'Chassis': [{'@odata.id': one} for one in chassis]}}
    return ResourceView(Ref(bmc='host', uri=uri), {'Actions': actions or {}, **links}, [])


def action(name, *types, info=None):
    told = {'@Redfish.ActionInfo': info} if info else {'ResetType@Redfish.AllowableValues': list(types)}
    return {name: {'target': '/do', **told}}


def found(system=None, chassis=None, get=None, linked=(TRAY,)):
    views = {uri: view(uri, actions) for uri, actions in (chassis or {}).items()}
    place = standby.place(view(SYSTEM, system, linked), views, get)
    return None if place is None else place.uri


AUX = action('#NvidiaChassis.AuxPowerReset', 'AuxPowerCycle', 'AuxPowerCycleForce')
FULL = action('#Chassis.Reset', 'On', 'FullPowerCycle')


@pytest.mark.parametrize(
    ('system', 'chassis', 'expected'),
    [
        (None, {TRAY: {'Oem': AUX}}, TRAY),
        (None, {TRAY: FULL}, TRAY),
        (None, {OTHER: FULL}, None),
        (None, {TRAY: FULL, OTHER: {'Oem': AUX}}, OTHER),
        (None, {TRAY: action('#Chassis.Reset', 'On', 'PowerCycle')}, None),
        (action('#ComputerSystem.Reset', 'FullPowerCycle'), {}, None),
        (None, {TRAY: {'Oem': action('#NvidiaChassis.AuxPowerReset', 'AuxPowerCycleForce')}}, None),
        (None, {TRAY: {'Oem': action('#DellOemChassis.ExtendedReset', 'PowerCycle')}}, TRAY),
        ({'Oem': {'Hpe': action('#HpeComputerSystemExt.SystemReset', 'ColdBoot', 'AuxCycle')}}, {}, SYSTEM),
        ({'Oem': action('#LenovoComputerSystem.SystemReset', 'ACPowerCycle')}, {}, SYSTEM),
        ({'Oem': action('#LenovoComputerSystem.SystemReset', 'On')}, {}, None),
        ({'Oem': 'none'}, {TRAY: {'Oem': ['none']}}, None),
    ],
)
def test_only_what_is_known_to_do_it_counts(system, chassis, expected):
    """A PowerCycle leaves external power on, a System's FullPowerCycle starts it, and what cuts off a running host is none."""
    assert expected == found(system, chassis)


@pytest.mark.parametrize(('values', 'expected'), [(['AuxPowerCycle'], TRAY), (['Other'], None), (None, None)])
def test_what_an_action_takes_may_stand_in_its_action_info(values, expected):
    """One that cannot be read offers nothing."""

    def get(uri):
        if values is None:
            raise BmcRefused(bmc='host', uri=uri, what='404', reason=BmcRefusalReason.NOT_FOUND)
        assert '/info' == uri
        return Document(ref=Ref(bmc='host', uri=uri), body={'Parameters': [{'Name': 'ResetType', 'AllowableValues': values}]})

    assert expected == found(None, {TRAY: {'Oem': action('#NvidiaChassis.AuxPowerReset', info='/info')}}, get)
