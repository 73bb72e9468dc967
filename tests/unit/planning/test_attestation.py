# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What devices have signed is worth as much as it proves, and has to mean the image whose version the BMC shows."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.image import Image, ReferenceValue
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.measurement import Measurement, MeasurementReading, MeasurementState
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning.attestation import findings
from baremetal_acc.policy.baseline import parse
from baremetal_acc.policy.baseline_rules import Baseline, Match, Measure, Rule
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render import findings as findings_in_words
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

SIGNED = 'measurements signed over our nonce, verified with a pinned root, and as the catalogue expects'
OLD_FIRMWARE, NEW_FIRMWARE = '0a' * 48, '0b' * 48


def image(version: str, value: str | None, *, name: str | None = None, **reference) -> Image:
    """Firmware whose measurement 2 the catalogue knows."""
    made = ReferenceValue(**({'integrity': 'ROT_*', 'index': 2, 'values': (('sha384', value or ''),)} | reference))
    return replace(
        v.image(version=version),
        name=name or f'gpu-{version}',
        component='GPU_*',
        measurements=() if value is None else (made,),
    )


CATALOGUE = (image(v.OLD, OLD_FIRMWARE), image(v.NEW, NEW_FIRMWARE))


def reading(value: str = OLD_FIRMWARE, **changes) -> MeasurementReading:
    """A root of trust that has proven what its GPU runs."""
    made = MeasurementReading(
        accelerator=v.GPU,
        ref=v.ref('ComponentIntegrity/ROT_0'),
        integrity='ROT_0',
        state=MeasurementState.PROVEN,
        at=v.NOW,
        session='s',
        fingerprint='sha256:1',
        measurements=(Measurement(index=2, kind='mutable-firmware', algorithm='sha384', value=value),),
    )
    return replace(made, **changes)


def told(*readings: MeasurementReading, measure: Measure | None = None, catalogue=CATALOGUE, others=(), **changes):
    """What is found of a GPU with these readings."""
    device = v.gpu(measurements=readings, **changes)
    rules = () if measure is None else (Rule(name='r', match=Match(), measure=measure),)
    wanted = demands(Baseline(rules=rules), device, v.NODE)
    found = findings(device, (device, *others), wanted, catalogue)
    return tuple(replace(one, fact=findings_in_words.words(one.fact)) for one in found)


def test_a_device_that_measures_as_the_image_of_its_version_is_met():
    """Signed, and what the catalogue expects of the version that the BMC shows."""
    (found,) = told(reading())
    assert (Met.YES, 'measurement ROT_0', SIGNED, 'default') == (
        found.met,
        str(found.subject),
        found.fact.expected,
        found.rule,
    )
    assert 'proven: GPU_0 is 1.0' == found.fact.found


def test_a_bmc_that_lies_about_a_version_is_found_out():
    """The version says new, and the device has signed the old firmware."""
    (found,) = told(reading(OLD_FIRMWARE), firmware=(v.component(version=v.NEW),))
    assert (Met.NO, True) == (found.met, 'its measurement is that of image gpu-1.0, version 1.0' in found.fact.found)
    # Also where the catalogue does not say what the version that is shown has to measure.
    (found,) = told(reading(OLD_FIRMWARE), firmware=(v.component(version='3.0'),))
    assert (Met.NO, True) == (found.met, 'reported as 3.0, but its measurement is that of image gpu-1.0' in found.fact.found)


def test_what_no_image_measures_is_not_met_and_says_what_was_found():
    """Firmware that nobody knows."""
    (found,) = told(reading('0c' * 48))
    assert (Met.NO, True) == (
        found.met,
        'measurement 2 is sha384:0c0c0c0c0c0c0c0c..., not that of image gpu-1.0' in found.fact.found,
    )
    (found,) = told(reading(measurements=(Measurement(index=3, kind='mutable-firmware', value=OLD_FIRMWARE),)))
    assert (Met.NO, True) == (found.met, 'measurement 2 is missing' in found.fact.found)


@pytest.mark.parametrize('state', [MeasurementState.REFUSED, MeasurementState.UNKNOWN])
@pytest.mark.parametrize('measure', [Measure.WHERE_PRESENT, Measure.REQUIRED])
def test_nothing_but_a_proof_is_good(state, measure):
    """A root of trust that offers to sign, and does not or does it wrong, is not met even where nothing is required."""
    (found,) = told(reading(state=state, reason='the nonce is another one'), measure=measure)
    assert (Met.NO, f'{state}: the nonce is another one') == (found.met, found.fact.found)


def test_without_a_reference_value_it_is_told_and_only_required_fails():
    """That it is genuine is proven; what it runs is not known."""
    bare = tuple(replace(i, measurements=()) for i in CATALOGUE)
    for catalogue in (bare, ()):
        (found,) = told(reading(), catalogue=catalogue)
        assert (Met.YES, 'proven, and the catalogue has nothing to compare it with') == (found.met, found.fact.found)
        (found,) = told(reading(), catalogue=catalogue, measure=Measure.REQUIRED)
        assert (Met.NO, 'r') == (found.met, found.rule)
    (found,) = told(reading(integrity='OTHER_0'))
    assert 'nothing to compare' in found.fact.found


def test_required_wants_a_root_of_trust_and_a_look_that_asked_it():
    """Absent and not asked are two things, and neither is good."""
    (found,) = told(measure=Measure.REQUIRED)
    none = 'the BMC shows no root of trust that signs for this device'
    assert (Met.NO, v.GPU, 'measurement', none) == (found.met, found.accelerator, str(found.subject), found.fact.found)
    device = v.gpu(measurements=None)
    wanted = demands(Baseline(rules=(Rule(name='r', match=Match(), measure=Measure.REQUIRED),)), device, v.NODE)
    (found,) = findings(device, (device,), wanted, CATALOGUE)
    none = 'measurements were not requested in this inspection'
    assert (Met.NO, 'measurement', none) == (found.met, str(found.subject), findings_in_words.words(found.fact).found)


def test_where_nothing_is_present_or_wanted_nothing_is_said():
    """Most devices sign nothing."""
    assert () == told()
    assert () == told(reading(state=MeasurementState.REFUSED), measure=Measure.OFF)


def test_one_key_that_answers_for_two_devices_proves_neither():
    """A BMC that lies may ask one genuine card in place of all."""
    other = v.fpga(measurements=(reading(accelerator=v.FPGA, integrity='ROT_1'),))
    (found,) = told(reading(), others=(other,))
    assert (Met.NO, True) == (found.met, f'is also that of {other.label}' in found.fact.found)
    (found,) = told(reading(), others=(replace(other, measurements=(reading(fingerprint='sha256:2'),)),))
    assert Met.YES == found.met
    (found,) = told(reading(fingerprint=None))
    assert (Met.NO, 'the key that signed them is unknown') == (found.met, found.fact.found)


def shared(*, measure: Measure | None = None, own: bool = False, others: int = 2, **changes):
    """What is found of a GPU whose root of trust is that of a whole baseboard."""
    board = {'ref': v.ref('ComponentIntegrity/BOARD_0'), 'integrity': 'ROT_BOARD_0'}
    beside = tuple(v.fpga(id=f'uuid:{n}', measurements=(reading(accelerator=f'uuid:{n}', **board),)) for n in range(others))
    more = (reading(fingerprint='sha256:9'),) if own else ()
    return told(reading(**board, **changes), *more, others=beside, measure=measure)


def test_one_root_of_trust_may_protect_several_devices():
    """The standard lets it protect what it links: the key is the root's, and that it answers for all of them is said."""
    (found,) = shared()
    assert (Met.YES, 'proven: GPU_0 is 1.0; the same root of trust signs for 2 other devices') == (found.met, found.fact.found)
    (found,) = shared(others=1)
    assert found.fact.found.endswith('; the same root of trust signs for 1 other device')
    (found,) = shared(value=NEW_FIRMWARE)
    assert Met.NO == found.met
    # The same key by another resource is somebody else's, whoever shares it.
    stranger = v.fpga(measurements=(reading(accelerator=v.FPGA, ref=v.ref('ComponentIntegrity/ROT_1')),))
    (found,) = told(reading(), others=(stranger,))
    assert (Met.NO, True) == (found.met, 'is also that of' in found.fact.found)


def test_where_it_is_required_a_device_needs_a_root_of_trust_of_its_own():
    """Who passes questions on to one genuine card could link all the others to it."""
    (found,) = shared(measure=Measure.REQUIRED)
    said = 'the root of trust also signs for 2 other devices, and no other signs for this device alone'
    assert (Met.NO, said) == (found.met, found.fact.found)
    assert [Met.YES, Met.YES] == [f.met for f in shared(measure=Measure.REQUIRED, own=True)]


def test_several_values_and_several_images_of_a_version_may_be_allowed():
    """One firmware measures in several ways, by its straps for instance."""
    two = image(v.OLD, None)
    both = replace(
        two, measurements=(ReferenceValue(integrity='*', index=2, values=(('sha384', 'ff' * 48), ('sha384', OLD_FIRMWARE))),)
    )
    (found,) = told(reading(), catalogue=(both,))
    assert Met.YES == found.met
    (found,) = told(reading(), catalogue=(image(v.OLD, NEW_FIRMWARE, name='other'), *CATALOGUE))
    assert Met.YES == found.met


def test_all_measurements_that_the_catalogue_gives_have_to_be_there():
    """One right value does not make up for a wrong one beside it."""
    one = ReferenceValue(integrity='*', index=2, values=(('sha384', OLD_FIRMWARE),))
    more = replace(CATALOGUE[0], measurements=(one, ReferenceValue(integrity='*', index=3, values=(('sha384', NEW_FIRMWARE),))))
    (found,) = told(reading(), catalogue=(more,))
    assert (Met.NO, True) == (found.met, 'measurement 3 is missing' in found.fact.found)


@pytest.mark.parametrize(
    ('found', 'reference', 'same'),
    [
        ({'algorithm': 'sha384'}, 'sha384', True),
        ({'algorithm': None}, 'sha384', True),
        ({'algorithm': 'sha3_384'}, 'sha384', False),
        ({'algorithm': 'sha384'}, 'raw', False),
        ({'algorithm': None}, 'raw', False),
        ({'raw': True}, 'raw', True),
        ({'raw': True}, 'sha384', False),
        ({'raw': True, 'hashed': True}, 'raw', False),
    ],
)
def test_a_value_counts_for_its_algorithm_alone(found, reference, same):
    """A raw value is no digest, and the digest of a long one is not what was measured."""
    measured = Measurement(index=2, kind='mutable-firmware', value=OLD_FIRMWARE, **found)
    (one,) = told(
        reading(measurements=(measured,)), catalogue=(image(v.OLD, OLD_FIRMWARE, values=((reference, OLD_FIRMWARE),)),)
    )
    assert (Met.YES if same else Met.NO) == one.met


@pytest.mark.parametrize(
    ('found', 'shown'), [({'raw': True}, 'raw'), ({'raw': False}, 'digest'), ({'algorithm': 'sha3_384'}, 'sha3_384')]
)
def test_what_was_measured_in_its_place_is_told(found, shown):
    """By its kind and its beginning: the whole stands in the inventory."""
    measured = Measurement(index=2, kind='mutable-firmware', value='0d' * 48, **found)
    (one,) = told(reading(measurements=(measured,)))
    assert f'measurement 2 is {shown}:0d0d0d0d0d0d0d0d..., not that of image gpu-1.0' in one.fact.found


def test_each_component_is_told():
    """A root of trust speaks of several, and each is compared with its own image."""
    second = replace(image(v.OLD, None), name='rot', component='ROT_*')
    rot = replace(second, measurements=(ReferenceValue(integrity='*', index=3, values=(('sha384', NEW_FIRMWARE),)),))
    both = {'firmware': (v.component(), v.component('ROT_0')), 'catalogue': (CATALOGUE[0], rot)}

    def measured(*values: str) -> MeasurementReading:
        blocks = (Measurement(index=n, kind='mutable-firmware', value=value) for n, value in enumerate(values, 2))
        return reading(measurements=tuple(blocks))

    (one,) = told(measured(OLD_FIRMWARE, NEW_FIRMWARE), **both)
    assert (Met.YES, 'proven: GPU_0 is 1.0; ROT_0 is 1.0') == (one.met, one.fact.found)
    device = v.gpu(firmware=both['firmware'], measurements=(measured(OLD_FIRMWARE, NEW_FIRMWARE),))
    seen = findings_in_words.with_measurements_compared(v.inventory(device), both['catalogue'])
    (one,) = seen.accelerators[0].measurements
    assert 'compared with the catalogue: GPU_0 is 1.0; ROT_0 is 1.0' == one.reason
    (one,) = told(measured('0c' * 48, '0d' * 48), **both)
    assert (Met.NO, True) == (one.met, 'not that of image gpu-1.0; ROT_0 is reported as 1.0' in one.fact.found)
    (one,) = told(measured(OLD_FIRMWARE, '0d' * 48), **both)
    assert (Met.NO, True) == (one.met, one.fact.found.startswith('ROT_0 is reported as 1.0, but measurement 3 is digest:'))


def test_a_version_that_nobody_knows_is_not_met_where_the_device_says_which_it_is():
    """The BMC hides it; the measurement does not."""
    (found,) = told(reading(), firmware=(v.component(version=None),))
    assert (Met.NO, True) == (found.met, 'reported as unknown' in found.fact.found)


def test_what_is_told_of_a_proof_stays_told():
    """A card on which somebody debugged once."""
    (found,) = told(reading(reason='was debugged once'))
    assert 'proven: GPU_0 is 1.0: was debugged once' == found.fact.found


def test_a_verdict_has_the_measurements_and_a_quick_look_beside_it_leaves_them_out():
    """What fails here fails the verdict, whatever the locks say."""
    device = v.gpu(measurements=(reading(state=MeasurementState.REFUSED, reason='no'),))
    look = Inventory(target='node-1', at=v.NOW, bmcs=(), accelerators=(device,))
    verdict = verify(look, Baseline(rules=()), v.NODE, (), (), lifecycle=v.LIFECYCLE)
    assert ['measurement ROT_0'] == [str(f.subject) for f in verdict.unmet if str(f.subject).startswith('measurement')]
    quick = verify(look, Baseline(rules=()), v.NODE, (), (), lifecycle=v.LIFECYCLE, measured=False)
    assert not [f for f in quick.findings if str(f.subject).startswith('measurement')]


def test_readings_survive_being_stored():
    """And a device of a look that was stored before there were any says that nobody asked."""
    device = v.gpu(measurements=(reading(),))
    assert device == decode(type(device), encode(device))
    before = encode(v.gpu())
    del before['measurements']
    assert decode(type(device), before).measurements is None


def test_a_rule_says_whether_to_measure():
    """In baseline.toml; a word that is none is an error with its line."""
    rules = parse('format = 1\n[[rule]]\nmeasure = "required"\n', 'baseline.toml')
    assert Measure.REQUIRED == rules.rules[0].measure
    assert Measure.WHERE_PRESENT == demands(Baseline(rules=()), v.gpu(), v.NODE).measure
    with pytest.raises(DocumentError, match=r"line 3: rule\[0\].measure: 'require' is none of required, where-present, off"):
        parse('format = 1\n[[rule]]\nmeasure = "require"\n', 'baseline.toml')
