# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A way of the host to a BMC that was shown once is missed, however well those are closed that are shown still."""

from dataclasses import replace

from baremetal_acc.model.lock import LockReading, LockState, Scope, Way, WritePath
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.planning import lock_evidence
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

IPMI, REDFISH = WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH
GOOD = v.gpu(firmware=(v.component(version=v.NEW),))
RULES = v.baseline(block=frozenset({REDFISH}))
DPU = BmcName('dpu')


def way(place, *, path=REDFISH, mechanism='host_interface', bmc=HOST, **other):
    found = v.reading(mechanism=mechanism, blocks=frozenset({path}), place=place, scope=Scope.BMC, **other)
    return replace(found, ref=replace(found.ref, bmc=bmc))


FIRST, SECOND = way('Managers/1/HostInterfaces/1'), way('Managers/2/HostInterfaces/1')


def card(*locks):
    return replace(GOOD, locks=locks)


def open_ones(now, before, rules=RULES):
    """What does not hold where all that is shown now was engaged by us."""
    records = [v.engagement(r, scope=r.scope) for r in now.locks]
    result = verify(
        v.inventory(now), rules, v.NODE, (), records, lifecycle=v.LIFECYCLE, ways=lock_evidence.ways([before] if before else [])
    )
    return [(str(f.subject), f.fact.found) for f in result.unmet]


def test_a_way_that_has_vanished_beside_another_is_missed():
    """What the BMC still shows is closed, and says nothing of a second host interface that it hides."""
    assert [] == open_ones(card(FIRST, SECOND), card(FIRST, SECOND))
    assert [] == open_ones(card(FIRST), None)
    ((subject, found),) = open_ones(card(FIRST), card(FIRST, SECOND))
    assert 'lock host-bmc-redfish' == subject
    for said in ('host_interface', str(SECOND.ref), 'no longer is', 'inspect the node'):
        assert said in found


def test_it_is_missed_on_every_card_that_this_bmc_shows():
    """Whichever card was there when it was seen; it is of the machine."""
    new = replace(card(replace(FIRST, accelerator=v.FPGA)), id=v.FPGA)
    ((subject, _),) = open_ones(new, card(FIRST, SECOND))
    assert 'lock host-bmc-redfish' == subject


def test_a_way_of_another_mechanism_or_path_is_its_own():
    """KCS that has vanished opens the system interface, and no host interface."""
    kcs = way('Managers/1', path=IPMI, mechanism='kcs')
    assert [] == open_ones(card(FIRST), card(FIRST, kcs))
    both = v.baseline(block=frozenset({REDFISH, IPMI}))
    other = way('Managers/2', path=IPMI, mechanism='kcs')
    assert ['lock host-bmc-ipmi'] == [s for s, _ in open_ones(card(FIRST, other), card(FIRST, kcs, other), both)]


def test_what_covers_the_path_without_it_is_enough():
    """A lockdown that holds closes all ways; so does a lock of the card itself, and a BMC that is gone is no way to it."""
    lockdown = way('Managers/1/Lockdown', mechanism='lockdown', wraps=True)
    assert [] == open_ones(card(FIRST, lockdown), card(FIRST, SECOND, lockdown))
    own = v.reading(blocks=frozenset({REDFISH}))
    assert [] == open_ones(card(own, FIRST), card(own, FIRST, SECOND))
    assert [] == open_ones(card(FIRST), card(FIRST, way('Managers/1/HostInterfaces/1', bmc=DPU)))


def test_only_what_was_read_is_a_way():
    """A resource that could not be read then may never have been one."""
    for unseen in (
        replace(SECOND, state=LockState.UNKNOWN, value=None),
        replace(SECOND, state=LockState.UNSUPPORTED),
        replace(SECOND, scope=Scope.DEVICE),
    ):
        assert [] == open_ones(card(FIRST), card(FIRST, unseen))


def test_the_ways_of_a_machine_are_the_places_of_its_own_locks_that_show_a_value():
    """Each once, however many cards show it; no lock of a card, and none that says nothing."""
    both = way('Managers/1', path=IPMI)
    shown = replace(both, blocks=frozenset({REDFISH, IPMI}))
    silent, missing = replace(way('Silent'), value=None), way('Missing', state=LockState.UNSUPPORTED)
    own = v.reading(place='Own', blocks=frozenset({REDFISH}))
    found = lock_evidence.ways([card(shown, silent, missing, own), card(shown)])
    assert {Way(mechanism='host_interface', ref=both.ref, field='Closed', blocks=(IPMI, REDFISH))} == found


def test_a_way_that_has_vanished_is_read_as_unknown():
    """Of each that the card is reached by, and that is not shown: the others are somebody else's, or are there."""
    gone, there, elsewhere = (
        Way(mechanism='host_interface', ref=r.ref, field='Closed', blocks=(IPMI, REDFISH))
        for r in (FIRST, SECOND, way('Managers/1', bmc=DPU))
    )
    assert (
        LockReading(
            mechanism='host_interface',
            accelerator=v.GPU,
            blocks=frozenset({IPMI, REDFISH}),
            ref=FIRST.ref,
            field='Closed',
            value=None,
            state=LockState.UNKNOWN,
            at=v.NOW,
            session='',
            scope=Scope.BMC,
            reason=(
                'it was shown before, but no longer is (if it is gone for good, inspect the node, or run apply '
                '--forget-vanished)'
            ),
        ),
    ) == lock_evidence.vanished(card(SECOND), [gone, there, elsewhere], v.NOW)
