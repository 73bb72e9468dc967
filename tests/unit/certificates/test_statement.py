# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A certificate is issued for what was proven, and holds for the node, the life and the deployment that it is of."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.certificates import validity
from baremetal_acc.certificates.statement import Occasion, claims, issue
from baremetal_acc.certificates.validity import FRESH, SKEW
from baremetal_acc.errors import CertificateInvalid, NotMet
from baremetal_acc.model import canonical
from baremetal_acc.model.accelerator import Function, Kind
from baremetal_acc.model.certificate import CertifiedNode, Paper, document, read
from baremetal_acc.model.custody import (
    NO_CUSTODY,
    Break,
    BreakCause,
    CardCustody,
    Chain,
    Cover,
    Custody,
    CustodyDemand,
    Interval,
    Origin,
    Strength,
)
from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.model.measurement import Measurement, MeasurementComparison, MeasurementReading, MeasurementState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.model.waiver import Relaxation, Relaxed, Waived
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, Rule
from baremetal_acc.render import certificate_faults, findings
from tests.unit.planning import values as v

UUID = '6f1a7c1e-0000-4000-8000-000000000001'
OCCASION = Occasion(
    node=CertifiedNode(uuid=UUID, name='node-1', instance='vm-1'),
    lifecycle=v.LIFECYCLE + 1,
    proven_in=v.LIFECYCLE,
    flow=Flow.DEPLOY,
    deployment='d-1',
    issued=v.NOW + timedelta(minutes=1),
    issuer='baremetal-acc 0.1.0 at conductor-1',
    key='sha256:' + '0' * 64,
    requester='alice (project)',
    baseline=Paper(name='baseline.toml', digest='sha256:' + '1' * 64),
    catalogue=Paper(name='catalogue.toml', digest='sha256:' + '2' * 64),
    known=frozenset({v.GPU}),
)
GOOD = v.inventory(v.gpu(firmware=(v.component(version=v.NEW),)))
LATER = OCCASION.issued + timedelta(days=400)
WAIVED = Waived(
    accelerator=v.GPU,
    label='H100 GPU_0',
    path=WritePath.HOST_BMC_IPMI,
    parts=('GPU_0',),
    rule='all',
    role='security officer',
    reason='no mechanism',
    expires=OCCASION.issued + timedelta(days=30),
)


def issued(inventory=GOOD, *, baseline=None, node=v.NODE, engagements=None, verdict=None, occasion=OCCASION, catalogue=()):
    records = [v.engagement()] if engagements is None else engagements
    rules = baseline or v.baseline()
    judged = verify(inventory, rules, node, (), records, lifecycle=occasion.proven_in, flow=occasion.flow, known=occasion.known)
    seen = findings.with_measurements_compared(inventory, catalogue)
    return issue(seen, verdict or judged, rules, node, records, occasion, findings.sentence)


def holds(certificate, **asked):
    return tuple(map(certificate_faults.sentence, validity.holds(certificate, **asked)))


def refused(*args, **how):
    with pytest.raises(NotMet) as caught:
        issued(*args, **how)
    return '; '.join(caught.value.reasons)


ALL_MET = Verdict(target='node-1', findings=())
"""A verdict that has nothing against anything: the certificate is refused all the same."""


def test_it_says_what_was_proven():
    """Card, firmware, functions, each path, and each reading with mechanism, place, value, time and session."""
    certificate = issued()
    card = certificate.accelerators[0]
    lock = card.locks[0]
    assert (v.GPU, 'NVIDIA', 'H100') == (card.id, card.vendor, card.model)
    assert [('GPU_0', v.NEW, 'all')] == [(c.id, c.version, c.rule) for c in card.firmware]
    assert ('rot', v.ref('Chassis/RoT_0'), 'Closed', 'false') == (lock.mechanism, lock.ref, lock.field, lock.value)
    assert (LockState.LOCKED_VERIFIED, v.NOW, v.EARLIER, v.LIFECYCLE) == (lock.state, lock.at, lock.engaged, lock.lifecycle)
    assert {'host-device': 'locked-verified', 'host-bmc-ipmi': 'unsupported'}.items() <= {
        str(p.path): str(p.state) for p in card.paths
    }.items()
    assert [WritePath.HOST_DEVICE] == [p.path for p in card.paths if p.demanded]
    assert (v.LIFECYCLE + 1, v.LIFECYCLE, 'd-1') == (certificate.lifecycle, certificate.proven_in, certificate.deployment)
    assert (v.GPU,) == certificate.expected.devices
    assert 'tenant' == certificate.exposure
    assert (None, v.reading().needs, 'reading-session') == (lock.reason, lock.needs, lock.session)


def test_a_lock_of_the_whole_machine_is_said_to_be_ours_for_each_card():
    """It was closed once, with one of the cards as its occasion."""
    other = AcceleratorId('uuid:gpu-1')
    machine = v.reading(mechanism='kcs', scope=Scope.BMC, place='Managers/1', blocks=frozenset({WritePath.HOST_BMC_IPMI}))
    cards = tuple(
        replace(
            v.gpu(firmware=(v.component(version=v.NEW),)),
            id=card,
            locks=(v.reading(accelerator=card), replace(machine, accelerator=card)),
        )
        for card in (v.GPU, other)
    )
    records = [v.engagement(lock) for lock in (*cards[0].locks, cards[1].locks[0])]
    certificate = issued(v.inventory(*cards), engagements=records, occasion=replace(OCCASION, known=frozenset({v.GPU, other})))
    ours = [[(lock.mechanism, lock.state, lock.engaged) for lock in card.locks] for card in certificate.accelerators]
    assert [[('rot', 'locked-verified', v.EARLIER), ('kcs', 'locked-verified', v.EARLIER)]] * 2 == ours


def test_slots_and_what_they_hold_are_in_it():
    """Empty ones, too; those that a rule speaks of name it."""
    inventory = v.inventory(v.fpga())
    records = [v.engagement(r) for r in v.fpga().locks]
    occasion = replace(OCCASION, known=frozenset())
    rules = v.baseline(firmware=None, functions=(('Slot0', 'gzip'),))
    verdict = Verdict(target='node-1', findings=())
    certificate = issued(inventory, baseline=rules, engagements=records, verdict=verdict, occasion=occasion)
    found = certificate.accelerators[0].functions
    locks = certificate.accelerators[0].locks
    assert [('firmware', None), ('slot', 'Slot0'), ('slot', 'Slot1')] == [(str(r.scope), r.part) for r in locks]
    assert [('Slot0', 'gzip', 'all'), ('Slot1', None, None)] == [(f.slot, f.id, f.rule) for f in found]


def test_it_comes_back_from_its_json():
    """And the JSON has one form."""
    certificate = issued()
    body = document(certificate)
    assert certificate == read(body)
    assert body == canonical.parse(canonical.encode(body), limit=100_000)


@pytest.mark.parametrize(
    'edit',
    [
        lambda body: body | {'format': 2},
        lambda body: body | {'format': True},
        lambda body: body | {'more': 1},
        lambda body: {k: x for k, x in body.items() if k != 'waivers'},
        lambda body: {k: x for k, x in body.items() if k != 'accelerators'},
        lambda body: body | {'issued': '2026-11-21T13:01:00+01:00'},
        lambda body: body | {'issued': '2026-11-21T12:01:00'},
        lambda body: body | {'lifecycle': '8'},
        lambda body: body | {'lifecycle': True},
        lambda body: body | {'flow': 'deployed'},
        lambda body: body | {'node': None},
        lambda body: [body],
    ],
)
def test_another_shape_is_none(edit):
    """Fields that are missing, unknown, of another type, or written in another way."""
    with pytest.raises(CertificateInvalid):
        read(edit(document(issued())))


def test_none_is_issued_for_what_is_not_met():
    """The reasons are those of the verdict."""
    assert 'firmware GPU_0: expected 2.0, found 1.0' in refused(v.inventory(v.gpu()))


@pytest.mark.parametrize(
    ('inventory', 'what'),
    [
        (v.inventory(v.gpu(locks=())), 'found unsupported'),
        (v.inventory(v.gpu(locks=(v.reading(LockState.UNLOCKED),))), 'found unlocked'),
        (v.inventory(v.gpu(locks=(v.reading(LockState.UNKNOWN),))), 'found unknown'),
        (v.inventory(v.gpu(locks=(v.reading(LockState.PARTIAL),))), 'found partial'),
        (v.inventory(v.gpu(locks=(v.reading(LockState.PENDING_RESET),))), 'found pending-reset'),
        (v.inventory(v.gpu(locks=(v.reading(LockState.LOCKED_VERIFIED),))), 'found unknown'),
    ],
)
def test_none_is_issued_for_an_open_path_whatever_the_verdict_says(inventory, what):
    """The second look at the same facts."""
    assert what in refused(inventory, verdict=ALL_MET)


@pytest.mark.parametrize(
    'changes',
    [
        {'lifecycle': v.LIFECYCLE - 1},
        {'flow': 'clean'},
        {'accelerator': 'uuid:other'},
        {'session': 'reading-session'},
        {'at': v.NOW},
    ],
)
def test_none_is_issued_on_the_word_of_other_evidence(changes):
    """Of another life, flow, card, session, or engaged after the reading."""
    assert 'found locked-reported' in refused(engagements=[v.engagement(**changes)], verdict=ALL_MET)


def test_a_rule_that_accepts_less_does_not_make_it_proven():
    """``accept = ["locked-reported"]`` is for those who only look."""
    rules = v.baseline(accept=frozenset({LockState.LOCKED_REPORTED}))
    occasion = replace(OCCASION, flow=Flow.CLI)
    assert 'found locked-reported' in refused(baseline=rules, engagements=(), occasion=occasion)


@pytest.mark.parametrize(
    ('change', 'what'),
    [
        (lambda i: replace(i, accelerators=()), 'no accelerator was found'),
        (lambda i: replace(i, at=OCCASION.issued - FRESH - timedelta(seconds=1)), 'which is too far from now'),
        (lambda i: replace(i, at=OCCASION.issued + timedelta(seconds=1)), 'which is too far from now'),
        (lambda i: replace(i, target='node-2'), 'the verdict is on node-1'),
        (lambda i: replace(i, gaps=(Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True),)), 'there may be devices behind'),
        (lambda i: v.inventory(v.fpga(locks=())), 'the card was found before, but is absent now'),
    ],
)
def test_none_is_issued_on_another_look(change, what):
    """Nothing seen, too long ago, another node, something hidden, a card that has vanished."""
    assert what in refused(change(GOOD), verdict=ALL_MET)


def test_gaps_that_hide_nothing_are_told():
    """A reader sees what could not be read."""
    gap = Gap(ref=v.ref('Chassis/1'), reason='HTTP 404', field='Sensors')
    assert ['HTTP 404'] == [g.reason for g in issued(replace(GOOD, gaps=(gap,))).gaps]


TWO = frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI})
MEASURED = MeasurementReading(
    accelerator=v.GPU,
    ref=v.ref('ComponentIntegrity/GPU_0'),
    integrity='GPU_0',
    state=MeasurementState.PROVEN,
    at=v.NOW,
    session='reading-session',
)
FULL = v.gpu(firmware=(v.component(version=v.NEW), v.component('GPU_1', version=v.OLD)), measurements=(MEASURED,))
GAP = Gap(ref=v.ref('Managers/1'), reason='HTTP 500')
TWO_PATHS = v.baseline(block=frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI}))


def test_a_waiver_is_in_it_and_stands_for_a_mechanism_that_is_not_there():
    """With who answers for it, why and until when; what is relaxed is in it, too."""
    relaxed = Relaxation(kind=Relaxed.PATHS, rule='all', text='does not ask for host-bmc-redfish')
    verdict = replace(ALL_MET, waived=(WAIVED,), relaxed=(relaxed,))
    certificate = issued(baseline=TWO_PATHS, verdict=verdict)
    assert ((WAIVED,), (relaxed,)) == (certificate.waivers, certificate.relaxations)
    assert () == holds(certificate, now=OCCASION.issued)
    [why] = [r for r in holds(certificate, now=WAIVED.expires) if 'waiver' in r]
    assert 'the waiver of security officer for the lock of host-bmc-ipmi' in why
    assert 2 == len(holds(certificate, now=WAIVED.expires))


@pytest.mark.parametrize(
    'changes', [{'expires': OCCASION.issued}, {'accelerator': 'uuid:other'}, {'path': WritePath.HOST_BMC_REDFISH}]
)
def test_a_waiver_that_is_over_or_for_something_else_is_none(changes):
    """Nothing is handed over on it."""
    verdict = replace(ALL_MET, waived=(replace(WAIVED, **changes),))
    assert 'lock host-bmc-ipmi: expected locked-verified, found unsupported' in refused(baseline=TWO_PATHS, verdict=verdict)


def test_a_waiver_never_covers_what_could_be_closed():
    """One part without a mechanism does not hide another one that is open."""
    open_part = v.reading(
        LockState.UNLOCKED,
        mechanism='kcs',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        place='Managers/1',
        part='GPU_0',
        scope='component',
    )
    card = v.gpu(firmware=(v.component(version=v.NEW), v.component('GPU_1', version=v.NEW)), locks=(v.reading(), open_part))
    assert 'found unlocked' in refused(v.inventory(card), baseline=TWO_PATHS, verdict=replace(ALL_MET, waived=(WAIVED,)))


def test_it_holds_for_its_own_node_life_and_deployment():
    """However much later: it ends with the life of the node."""
    assert () == holds(issued(), node=UUID, lifecycle=v.LIFECYCLE + 1, deployment='d-1', now=LATER)


@pytest.mark.parametrize(
    ('asked', 'why'),
    [
        ({'node': UUID[:-1] + '2'}, 'the certificate is for node'),
        ({'node': UUID.upper()}, 'the certificate is for node'),
        ({'node': 'node-1'}, 'the certificate is for node'),
        ({'lifecycle': v.LIFECYCLE}, 'the certificate is for lifecycle 8 of the node, not for 7'),
        ({'lifecycle': v.LIFECYCLE + 2}, 'not for 9: the node has come back since'),
        ({'lifecycle': v.LIFECYCLE + 2}, 'the node has come back since'),
        ({'deployment': 'd-2'}, 'the certificate is for deployment d-1'),
        ({'now': OCCASION.issued - SKEW - timedelta(seconds=1)}, 'in the future'),
    ],
)
def test_it_holds_for_nothing_else(asked, why):
    """Another node, another life, another deployment, or not yet."""
    [found] = holds(issued(), **({'now': LATER} | asked))
    assert why in found


@pytest.mark.parametrize(
    ('change', 'why'),
    [
        (lambda c: replace(c, expires=LATER), 'the certificate expired'),
        (lambda c: replace(c, accelerators=()), 'the certificate lists no accelerator'),
        (lambda c: replace(c, accelerators=c.accelerators * 2), 'an accelerator twice'),
        (
            lambda c: replace(c, expected=replace(c.expected, devices=('uuid:x', v.GPU))),
            'uuid:x is expected, but is not in the certificate',
        ),
        (lambda c: replace(c, looked=c.issued + timedelta(seconds=1)), 'from an inspection at'),
        (lambda c: replace(c, looked=c.issued - FRESH * 2), 'from an inspection at'),
    ],
)
def test_what_contradicts_itself_holds_for_nobody(change, why):
    """Whoever signed it."""
    assert any(why in reason for reason in holds(change(issued()), now=LATER))


def test_what_says_that_a_path_is_open_holds_for_nobody():
    """A certificate of another issuer, or of a version with a defect."""
    certificate = issued()
    card = certificate.accelerators[0]
    for state in set(LockState) - {LockState.LOCKED_VERIFIED}:
        paths = tuple(replace(p, state=state) if p.demanded else p for p in card.paths)
        [why] = holds(replace(certificate, accelerators=(replace(card, paths=paths),)), now=LATER)
        assert f'host-device must be blocked (rule all), but is {state}' in why


def test_a_node_of_the_operator_gets_one_too():
    """It says whose code runs there, and that nothing was demanded."""
    certificate = issued(node=replace(v.NODE, exposure=Exposure.SERVICE), baseline=v.baseline(block=None), engagements=())
    assert 'service' == certificate.exposure
    assert not any(p.demanded for p in certificate.accelerators[0].paths)


# ------------------------------------------------------------------------------------------------------------------ custody

BEGUN = v.NOW - timedelta(days=9)


def kept(origin=Origin.WRITTEN, *, strength=Strength.EVIDENCED, reaches=v.NOW, **changes) -> Custody:
    """The custody of the card, up to the look."""
    locked = Interval(since=BEGUN, until=reaches, cover=Cover.LOCKED, strength=strength)
    chain = Chain(accelerator=v.GPU, origin=origin, begun=BEGUN, by=('gpu-new',), intervals=(locked,))
    return Custody(cards=(CardCustody(accelerator=v.GPU, chain=replace(chain, **changes)),))


def with_custody(custody: Custody, demand=CustodyDemand.REQUIRED):
    """A certificate of a card with that custody."""
    return issued(baseline=v.baseline(custody=demand), occasion=replace(OCCASION, custody=custody))


def against(certificate, now=OCCASION.issued) -> tuple[str, ...]:
    """What speaks against it, after it was written down and read."""
    return holds(read(json.loads(json.dumps(document(certificate)))), now=now)


def test_it_says_the_chain_of_custody_of_each_card():
    """With what it begins, what covers it, how far it reaches; and that an updater of the card is believed."""
    certificate = with_custody(kept())
    said = certificate.accelerators[0].custody
    assert ('required', 'all', Origin.WRITTEN, BEGUN, v.NOW) == (said.demand, said.rule, said.origin, said.begun, said.reaches)
    assert () == against(certificate)
    proves, not_proven = claims(certificate).proves, claims(certificate).does_not_prove
    assert (
        'the operator has written these cards, and since then, until the inspection, no other code on the host could write '
        'them by host-device: H100 GPU_0 (2026-11-12 12:00:00Z; evidenced: locked)'
    ) in proves
    assert 'that a card has stored the image that it was sent, which only its own updater reports: H100 GPU_0' in not_proven
    assert not any('who has written' in text for text in not_proven)


def test_an_acceptance_names_who_answers_for_the_card_and_until_when():
    """And is over then."""
    until = OCCASION.issued + timedelta(days=1)
    certificate = with_custody(kept(Origin.ACCEPTED, by=('ada',), until=until, reason='day one'))
    assert any('ada until 2026-11-22 12:01:00Z: day one' in text for text in claims(certificate).proves)
    assert () == against(certificate)
    assert ['H100 GPU_0 (uuid:gpu-0): the acceptance by ada expired at 2026-11-22 12:01:00Z'] == [*against(certificate, until)]


@pytest.mark.parametrize(
    ('custody', 'demand', 'text'),
    [
        (NO_CUSTODY, CustodyDemand.REQUIRED, 'is required (rule all), but none holds'),
        (
            kept(broken=Break(cause=BreakCause.HOST_RAN, since=v.NOW, until=v.NOW)),
            CustodyDemand.REQUIRED,
            'is required (rule all), but none holds',
        ),
        (kept(reaches=v.EARLIER), CustodyDemand.REQUIRED, 'must reach to the inspection (rule all), but ends before it'),
        (kept(strength=Strength.POLLED), CustodyDemand.EVIDENCED, 'must be evidenced (rule all), but is polled'),
        (kept(strength=Strength.POLLED), CustodyDemand.REQUIRED, None),
        (NO_CUSTODY, CustodyDemand.REPORTED, None),
    ],
)
def test_one_that_contradicts_its_own_demand_of_custody_holds_for_nobody(custody, demand, text):
    """Whoever signed it."""
    found = against(with_custody(custody, demand))
    assert [] == list(found) if text is None else (1 == len(found) and text in found[0])


MINUTE = timedelta(minutes=1)
TOMORROW = v.NOW + timedelta(days=1)


def interval(since, until, strength=Strength.EVIDENCED) -> Interval:
    """A time in which locks kept the card."""
    return Interval(since=since, until=until, cover=Cover.LOCKED, strength=strength)


@pytest.mark.parametrize(
    ('changes', 'text'),
    [
        ({'intervals': ()}, 'has evidence until 2026-11-12 12:00:00Z, but is said to reach to 2026-11-21 12:00:00Z'),
        ({'intervals': (), 'reaches': BEGUN}, 'begins with a write, but has no evidence of the time since then'),
        ({'intervals': (interval(BEGUN + MINUTE, v.NOW),)}, 'but continues at 2026-11-12 12:01:00Z'),
        ({'intervals': (interval(BEGUN, BEGUN + MINUTE), interval(v.NOW, v.NOW))}, 'has evidence until 2026-11-12 12:01:00Z'),
        ({'intervals': (interval(BEGUN, v.NOW), interval(BEGUN, v.NOW))}, 'but continues at 2026-11-12 12:00:00Z'),
        ({'intervals': (interval(BEGUN, v.NOW - MINUTE),)}, 'has evidence until 2026-11-21 11:59:00Z'),
        (
            {'intervals': (interval(BEGUN, TOMORROW),), 'reaches': TOMORROW},
            'reaches to 2026-11-22 12:00:00Z, after the certificate was issued',
        ),
        ({'intervals': (interval(BEGUN, v.NOW, Strength.POLLED),)}, 'is said to be evidenced, but its intervals are polled'),
        ({'strength': Strength.POLLED}, 'is said to be polled, but its intervals are evidenced'),
        ({'origin': Origin.ACCEPTED}, 'does not say by whom and until when'),
        ({'origin': Origin.ACCEPTED, 'until': v.NOW + timedelta(days=9), 'by': ()}, 'does not say by whom and until when'),
        ({'origin': None}, 'lacks its origin, its beginning, its end or its strength'),
        ({'strength': None}, 'lacks its origin, its beginning, its end or its strength'),
        ({'reaches': None}, 'lacks its origin, its beginning, its end or its strength'),
        # A clock that was put back while the card was kept: each interval still begins where the one before it ended.
        ({'intervals': (interval(BEGUN, v.NOW + MINUTE), interval(v.NOW + MINUTE, v.NOW))}, None),
        ({'begun': TOMORROW, 'intervals': (interval(TOMORROW, v.NOW),)}, None),
        ({'origin': Origin.MEASURED}, None),
    ],
)
@pytest.mark.parametrize('demand', CustodyDemand)
def test_a_chain_that_contradicts_itself_holds_for_nobody(changes, text, demand):
    """Whatever the rules demand: what the chain says is repeated to whoever verifies the certificate."""
    certificate = with_custody(kept(), demand)
    [card] = certificate.accelerators
    forged = replace(certificate, accelerators=(replace(card, custody=replace(card.custody, **changes)),))
    found = against(forged)
    assert [] == list(found) if text is None else any('its chain of custody' in one and text in one for one in found)


def test_one_that_was_issued_before_there_was_custody_is_still_read():
    """And says the same as it did."""
    old = document(issued())
    del old['accelerators'][0]['custody']
    assert old == document(read(old))
    assert None is read(old).accelerators[0].custody
    assert () == holds(read(old), now=OCCASION.issued)
    assert any('who has written what runs' in text for text in claims(read(old)).does_not_prove)


def test_what_a_processor_of_the_card_itself_runs_is_not_proven():
    """A DPU whose own System was not read off."""
    said = claims(with_custody(kept(covers_own_processor=False))).does_not_prove
    assert 'what the processor of the card itself runs: H100 GPU_0' in said


# --------------------------------------------------------------------------------------------------------- what it comes to


def test_what_follows_from_it_is_said_word_by_word():
    """A reader who relies on it relies on these sentences."""
    inventory = replace(
        v.inventory(FULL, v.fpga(slots=(v.slot(0), v.slot(1)))),
        gaps=(Gap(ref=v.ref('Chassis/1'), reason='HTTP 404', field='Sensors'), GAP),
    )
    records = [v.engagement(r) for card in (FULL, v.fpga()) for r in card.locks]
    relaxed = Relaxation(kind=Relaxed.PATHS, rule='all', text='lets host-bmc-redfish be open')
    rules = Baseline(
        rules=(
            Rule(name='gpus', match=Match(kind=Kind.GPU), firmware=(('GPU_*', v.NEW),), block=TWO),
            Rule(name='fpgas', match=Match(kind=Kind.FPGA), functions=(('Slot*', 'gzip'),), block=v.HOST_DEVICE),
        )
    )
    certificate = issued(
        inventory, baseline=rules, engagements=records, verdict=replace(ALL_MET, waived=(WAIVED,), relaxed=(relaxed,))
    )
    said = claims(certificate)
    assert (
        f'baremetal-acc 0.1.0 at conductor-1 inspected node-1 ({UUID}) through its BMCs at 2026-11-21 12:00:00Z, and found 2 '
        'accelerators, with none of the expected ones missing',
        f'everything met baseline.toml (sha256:{"1" * 64}) with catalogue.toml (sha256:{"2" * 64})',
        'host-device was blocked by locks that were engaged in this lifecycle and read back: H100 GPU_0, Stratix FPGA1',
        'this firmware ran, as the BMC reports and as rules demand: H100 GPU_0 GPU_0 2.0, H100 GPU_0 GPU_1 1.0',
        'these functions were in their slots, as rules demand: Stratix FPGA1 Slot0 gzip, Stratix FPGA1 Slot1 gzip',
        'what runs was measured and signed by the roots of trust of these devices: H100 GPU_0',
    ) == said.proves
    assert (
        'anything after 2026-11-21 12:00:00Z, which the watch checks',
        'that a write from the host fails: only the configuration of the locks was read back',
        'what a BMC does not report, or reports wrongly, unless a device has signed it',
        'that host-bmc-ipmi is blocked, which no rule demands: Stratix FPGA1 (unsupported, rule fpgas)',
        'that host-bmc-redfish is blocked, which no rule demands: H100 GPU_0 (unsupported, rule gpus), '
        'Stratix FPGA1 (unsupported, rule fpgas)',
        'that host-bmc-ipmi of H100 GPU_0 is blocked: security officer has waived it until 2026-12-21 12:01:00Z (rule all): no '
        'mechanism',
        'as much as the default rules for a tenant: rule all: lets host-bmc-redfish be open',
        'who has written what runs, since no chain of custody holds: H100 GPU_0, Stratix FPGA1',
        'what the device runs by its own signature: Stratix FPGA1',
        'that these signed measurements belong to the versions, since none has a reference value: H100 GPU_0 (GPU_0)',
        'what could not be read: host:/redfish/v1/Chassis/1 Sensors: HTTP 404, and 1 more',
    ) == said.does_not_prove


def test_little_follows_from_little():
    """A node of the operator's own, of which nothing is demanded and nothing is closed."""
    card = v.gpu(locks=(), firmware=(replace(v.component(version=v.NEW), id=None),))
    rules = Baseline(rules=(Rule(name='all', match=Match(), block=frozenset()),))
    gaps = (Gap(ref=v.ref('Chassis/1'), reason='HTTP 404'),)
    certificate = issued(replace(v.inventory(card), gaps=gaps), baseline=rules, engagements=(), verdict=ALL_MET)
    said = claims(replace(certificate, node=replace(certificate.node, uuid=None)))
    assert 2 == len(said.proves)
    assert 'inspected node-1 through its BMCs at 2026' in said.proves[0]
    assert 'what could not be read: host:/redfish/v1/Chassis/1: HTTP 404' == said.does_not_prove[-1]
    measured = replace(certificate, accelerators=(replace(certificate.accelerators[0], measurements=(MEASURED,)),), gaps=())
    assert 'that host-device is blocked, which no rule demands: H100 GPU_0' in claims(measured).does_not_prove[-3]
    first, second = replace(measured.accelerators[0], label='A'), replace(measured.accelerators[0], label='B')
    both = replace(measured, accelerators=(second, first))
    assert 'what runs was measured and signed by the roots of trust of these devices: A, B' == claims(both).proves[-1]
    alone = 'that these signed measurements belong to the versions, since none has a reference value'
    assert f'{alone}: B (GPU_0), A (GPU_0)' == claims(both).does_not_prove[-1]
    by_nobody = Relaxation(kind=Relaxed.EXPOSURE, rule='default', text='its host runs no code of a tenant')
    relaxed = claims(replace(both, relaxations=(by_nobody,))).does_not_prove[-3]
    assert 'as much as the default rules for a tenant: its host runs no code of a tenant' == relaxed
    neither = replace(both, accelerators=tuple(replace(card, measurements=()) for card in both.accelerators))
    assert 'what the device runs by its own signature: B, A' == claims(neither).does_not_prove[-1]
    unknown = replace(MEASURED, state=MeasurementState.UNKNOWN)
    doubtful = replace(measured, accelerators=(replace(measured.accelerators[0], measurements=(unknown,)),))
    assert 'what the device runs by its own signature: H100 GPU_0' == claims(doubtful).does_not_prove[-1]


def test_it_says_what_a_measurement_was_compared_with():
    """A signature over values that nobody knows proves that the device spoke, and not what it runs."""
    known = v.image(version=v.NEW)
    value = ReferenceValue(integrity='GPU_*', index=2, values=(('sha384', '0a' * 48),))
    signed = replace(
        MEASURED,
        reason='debug mode was active once',
        fingerprint='sha256:1',
        measurements=(Measurement(index=2, kind='mutable-firmware', algorithm='sha384', value='0a' * 48),),
    )
    seen = v.inventory(v.gpu(firmware=(v.component(version=v.NEW),), measurements=(signed,)))
    with_values = issued(seen, catalogue=(replace(known, component='GPU_*', measurements=(value,)),))
    without = issued(seen, catalogue=(known,))
    (compared,), (alone,) = (c.accelerators[0].measurements for c in (with_values, without))
    assert 'compared with the catalogue: GPU_0 is 2.0; debug mode was active once' == compared.reason
    assert 'the catalogue has nothing to compare it with; debug mode was active once' == alone.reason
    assert (compared.measurements, compared.state) == (signed.measurements, signed.state)
    what = 'that these signed measurements belong to the versions, since none has a reference value: H100 GPU_0 (GPU_0)'
    assert (False, True) == (what in claims(with_values).does_not_prove, what in claims(without).does_not_prove)
    assert ('compared', 'no-reference') == (compared.comparison, alone.comparison)


NOTHING_TO_COMPARE = 'that these signed measurements belong to the versions, since none has a reference value'


@pytest.mark.parametrize(
    ('reason', 'is_compared'),
    [
        ('compared with the catalogue: GPU_0 is 2.0', True),
        ('the catalogue has nothing to compare it with', False),
        ('the catalogue has nothing to compare it with; compared with the catalogue: nothing', False),
        (None, False),
    ],
)
def test_what_an_earlier_release_has_measured_is_still_read_by_its_text(reason, is_compared):
    """Its document has neither of the later fields, and stays as it was signed. No later document is read by its text."""
    certificate = issued()
    [card] = certificate.accelerators
    old = document(replace(certificate, accelerators=(replace(card, measurements=(replace(MEASURED, reason=reason),)),)))
    [measured] = old['accelerators'][0]['measurements']
    assert set() == {'versions', 'comparison'} & set(measured)
    assert old == document(read(old))
    assert is_compared is not any(NOTHING_TO_COMPARE in text for text in claims(read(old)).does_not_prove)
    for comparison in MeasurementComparison:
        later = json.loads(json.dumps(old))
        later['accelerators'][0]['measurements'][0]['comparison'] = comparison.value
        assert later == document(read(later))
        is_later_compared = not any(NOTHING_TO_COMPARE in text for text in claims(read(later)).does_not_prove)
        assert (comparison is MeasurementComparison.COMPARED) is is_later_compared


@pytest.mark.parametrize('changes', [{'comparison': None}, {'comparison': 'matched'}, {'comparison': ''}, {'versions': []}])
def test_a_measurement_is_written_in_one_way(changes):
    """Readers of another form might read it differently."""
    certificate = issued()
    [card] = certificate.accelerators
    data = document(replace(certificate, accelerators=(replace(card, measurements=(MEASURED,)),)))
    data['accelerators'][0]['measurements'][0] |= changes
    with pytest.raises(CertificateInvalid):
        read(data)


def test_every_word_of_the_occasion_is_in_it():
    """Who asked, until when, by what, and how many of each kind had to be there."""
    expires = OCCASION.issued + timedelta(days=1)
    rules = Baseline(
        rules=(
            Rule(name='two', match=Match(kind=Kind.GPU), count=1),
            Rule(name='other machines', match=Match(resource_class='silver'), count=7),
            *v.baseline().rules,
        )
    )
    certificate = issued(baseline=rules, occasion=replace(OCCASION, expires=expires, known=frozenset()))
    for name in ('node', 'flow', 'issued', 'issuer', 'key', 'requester', 'baseline', 'catalogue', 'lifecycle', 'proven_in'):
        assert getattr(OCCASION, name) == getattr(certificate, name), name
    assert (expires, v.NOW, (v.GPU,)) == (certificate.expires, certificate.looked, certificate.expected.devices)
    assert [('two', 1)] == [(c.rule, c.count) for c in certificate.expected.rules]
    more = replace(OCCASION, known=frozenset({v.GPU}))
    both = v.inventory(*GOOD.accelerators, v.fpga())
    records = [v.engagement(r) for card in both.accelerators for r in card.locks]
    assert (v.GPU,) == issued(both, engagements=records, verdict=ALL_MET, occasion=more).expected.devices


def test_none_is_issued_without_a_word_of_what_follows():
    """The hint, and each reason once."""
    with pytest.raises(NotMet) as caught:
        issued(v.inventory(v.gpu(locks=()), v.gpu(locks=())), verdict=ALL_MET)
    assert 'no certificate is issued, and the node is not handed over without one' == caught.value.hint
    assert ('H100 GPU_0, lock host-device: expected locked-verified, found unsupported (rule all)',) == caught.value.reasons


def test_the_bounds_of_time_are_good_themselves():
    """A look that is as old as may be, one of this very moment, a clock that is as far ahead as may be."""
    for at in (OCCASION.issued - FRESH, OCCASION.issued):
        card = v.gpu(firmware=(v.component(version=v.NEW),), locks=(v.reading(at=at),))
        records = [v.engagement(at=at - timedelta(seconds=1))]
        certificate = issued(v.inventory(card, at=at), engagements=records)
        assert () == holds(certificate, now=OCCASION.issued - SKEW)
    assert holds(replace(certificate, expires=LATER), now=LATER)
    assert () == holds(replace(certificate, expires=LATER + timedelta(microseconds=1)), now=LATER)


def test_a_deploy_counts_its_own_locks_and_the_command_line_all_of_this_life():
    """Engaged in cleaning, they are good for a target of the command line."""
    records = [v.engagement(flow='clean')]
    assert 'found locked-reported' in refused(engagements=records, verdict=ALL_MET)
    card = issued(engagements=records, occasion=replace(OCCASION, flow=Flow.CLI), verdict=ALL_MET).accelerators[0]
    assert (LockState.LOCKED_VERIFIED, v.EARLIER) == (card.locks[0].state, card.locks[0].engaged)
    later = v.EARLIER + timedelta(seconds=10)
    card = issued(engagements=[v.engagement(), v.engagement(at=later), v.engagement(at=v.EARLIER)]).accelerators[0]
    assert later == card.locks[0].engaged
    other = [v.engagement(), v.engagement(lifecycle=1, at=later), v.engagement(flow='clean', at=later)]
    other += [v.engagement(accelerator='uuid:x', at=later), v.engagement(part='x', at=later)]
    assert v.EARLIER == issued(engagements=other).accelerators[0].locks[0].engaged


def test_each_reason_is_said_word_by_word():
    """Whoever has to find out why reads these sentences, and nothing else."""
    certificate = issued()
    twice = replace(certificate, accelerators=certificate.accelerators * 2)
    nothing = replace(certificate, accelerators=(), expected=replace(certificate.expected, devices=()))
    late = replace(certificate, expires=LATER)
    assert ('the certificate lists an accelerator twice',) == holds(twice, now=LATER)
    assert ('the certificate lists no accelerator',) == holds(nothing, now=LATER)
    assert ('the certificate expired at 2027-12-26 12:01:00Z',) == holds(late, now=LATER)
    assert (f'the certificate is for node {UUID}, not for x',) == holds(certificate, node='x', now=LATER)
    assert ('the certificate is for lifecycle 8 of the node, not for 9: the node has come back since',) == (
        holds(certificate, lifecycle=9, now=LATER)
    )
    assert ('the certificate is for lifecycle 8 of the node, not for 7',) == holds(certificate, lifecycle=7, now=LATER)
    assert ('the certificate is for deployment d-1, not for x',) == holds(certificate, deployment='x', now=LATER)
    assert ('the certificate was issued in the future, at 2026-11-21 12:01:00Z',) == holds(certificate, now=v.NOW - SKEW)
    assert ('the certificate was issued at 2026-11-21 12:01:00Z, from an inspection at 2026-11-21 11:30:00Z',) == (
        holds(replace(certificate, looked=v.NOW - FRESH * 2), now=LATER)
    )
    gone = replace(certificate, expected=replace(certificate.expected, devices=('uuid:b', 'uuid:a', v.GPU)))
    assert ('uuid:a is expected, but is not in the certificate', 'uuid:b is expected, but is not in the certificate') == (
        holds(gone, now=LATER)
    )
    without_uuid = replace(certificate, node=replace(certificate.node, uuid=None))
    assert () == holds(without_uuid, node='node-1', now=LATER)


def test_each_reason_for_none_is_said_word_by_word():
    """In the order in which they are found."""
    gap = Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True)
    odd = replace(GOOD, target='node-2', at=OCCASION.issued - FRESH * 2, accelerators=(), gaps=(gap,))
    assert (
        'the verdict is on node-1, but the inspection is of node-2; node-2 was inspected at '
        '2026-11-21 11:31:00Z, which is too far from now '
        '(2026-11-21 12:01:00Z); node-2: no accelerator was found; uuid:gpu-0: the card was found before, but is absent now; '
        'host:/redfish/v1/Chassis: there may be devices behind this resource, which could not be read: HTTP 500'
    ) == refused(odd, verdict=ALL_MET)


def test_a_card_is_named_by_all_that_names_it():
    """Who checks it against the machine in front of him needs each of these."""
    names = {'part_number': '900-1', 'serial': '165', 'uuid': 'u-1', 'location': 'GPU1'}
    [card] = issued(v.inventory(v.gpu(firmware=(v.component(version=v.NEW),), **names))).accelerators
    assert names == {name: getattr(card, name) for name in names}
    seen = v.gpu()
    for name in ('id', 'identity', 'kind', 'label', 'vendor', 'model', 'pci'):
        assert getattr(seen, name) == getattr(card, name), name
    assert seen.primary == card.ref


def test_functions_are_told_once_in_their_slots_or_beside_them():
    """With name, version and UUID; what a slot holds is no function beside the slots."""
    inside = replace(v.slot(0).function, name='Gzip')
    outside = Function(ref=v.ref('Processors/FPGA1/AccelerationFunctions/x'), id='x', name='X', version='7', uuid='u-x')
    slots = (replace(v.slot(0), function=inside), v.slot(1, None, None))
    inventory = v.inventory(v.fpga(slots=slots, functions=(inside, outside)))
    records = [v.engagement(r) for r in v.fpga().locks]
    how = {'verdict': ALL_MET, 'occasion': replace(OCCASION, known=frozenset()), 'engagements': records}
    [card] = issued(inventory, baseline=v.baseline(firmware=None), **how).accelerators
    assert [
        ('Slot0', 'gzip', 'Gzip', v.NEW, v.SLOT_UUID),
        ('Slot1', None, None, None, None),
        (None, 'x', 'X', '7', 'u-x'),
    ] == [(f.slot, f.id, f.name, f.version, f.uuid) for f in card.functions]


def test_why_a_reading_is_not_better_is_in_it():
    """One that nobody demands may read as it likes, and says why."""
    ipmi = frozenset({WritePath.HOST_BMC_IPMI})
    odd = v.reading(LockState.UNKNOWN, mechanism='kcs', blocks=ipmi, place='M/1', reason='HTTP 500')
    card = v.gpu(firmware=(v.component(version=v.NEW),), locks=(v.reading(), odd))
    [_, found] = issued(v.inventory(card)).accelerators[0].locks
    assert ('HTTP 500', None, None) == (found.reason, found.engaged, found.lifecycle)
