# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When two versions are one, which image is for which card, and over which versions it gets there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.decide import images
from baremetal_acc.decide.images import same_version
from baremetal_acc.model.accelerator import PciIds
from baremetal_acc.model.image import Fit, ImageKind
from tests.unit.decide import values as v

PCI = '0x10de:0x2330'


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('96.00.A6.00.01', '96.00.A6.00.01  '),
        ('\t2.0\r\n', '2.0'),
        ('2.0\0\0', '2.0'),
        ('96.00.a6.00.01', '96.00.A6.00.01'),
        ('v2.2(release):4.9.0', '2.2(Release):4.9.0'),
        ('V1.45', 'v1.45'),
    ],
)
def test_one_version_that_is_written_in_two_ways_is_one(one, other):
    """Blanks around it, case, and a v before the first digit: what BMCs do to versions."""
    assert same_version(one, other)
    assert same_version(other, one)


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('2.0', '2.0.0'),
        ('2.0', '02.0'),
        ('2.0', '2 .0'),
        ('2.0', 'vv2.0'),
        ('2.0', 'v 2.0'),
        ('2.0', 'ver2.0'),
        ('alpha', 'valpha'),
        ('1.0-k', '1.0-\u212a'),  # KELVIN SIGN, whose lower case is k
        ('1.0', '\uff11.0'),  # a full-width digit
        ('1.0', '1.\u200b0'),
        ('2.0', '\xa02.0'),
    ],
)
def test_what_only_looks_alike_is_another_version(one, other):
    """Nothing is guessed: a zero more, a blank within, a letter of another script."""
    assert not same_version(one, other)
    assert not same_version(other, one)


@pytest.mark.parametrize('nothing', [None, '', '  ', '\0'])
def test_a_version_that_is_not_known_is_the_same_as_none(nothing):
    """Not even as another one that is not known: two cards that say nothing do not run the same."""
    assert not same_version(nothing, nothing)
    assert not same_version(nothing, '1.0')
    assert not same_version('1.0', nothing)


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_sameness_of_versions_goes_both_ways_and_on(one, two, three):
    """Whatever a BMC writes."""
    assert same_version(one, two) == same_version(two, one)
    if same_version(one, two) and same_version(two, three):
        assert same_version(one, three)


@pytest.mark.parametrize(
    ('fit', 'expected'),
    [
        (Fit(vendor='NVIDIA', model='H100'), True),
        (Fit(model='H100'), True),
        (Fit(pci=PCI), False),
        (Fit(model='H100', software_id='0x0020'), False),
        (Fit(part_number='9'), False),  # it does not fit at all
    ],
)
def test_vendor_and_model_are_names_and_the_rest_are_ids(fit, expected):
    """A name is shared by boards that take different firmware."""
    assert expected is images.by_name_only(v.image(fits=(fit,)), v.gpu(), v.component())


def test_a_card_that_also_fits_by_an_id_does_not_fit_by_name_only():
    """One fit with an id is enough."""
    both = v.image(fits=(Fit(model='H100'), Fit(pci=PCI)))
    assert not images.by_name_only(both, v.gpu(), v.component())


@pytest.mark.parametrize(
    ('subsystem', 'shows', 'expected'),
    [
        ('0x10de:0x16c1', ('0x10de', '0x16c1'), True),
        ('0x10de:0x1abc', ('0x10de', '0x16c1'), False),
        ('0x103c:0x16c1', ('0x10de', '0x16c1'), False),
        ('0x10de:0x16c1', (None, '0x16c1'), False),
        ('0x10de:0x16c1', ('0x10de', None), False),
    ],
)
def test_variants_of_a_card_differ_by_their_subsystem(subsystem, shows, expected):
    """Vendor and device id are the same; what is not shown is not it."""
    card = v.gpu(pci=replace(v.gpu().pci, subsystem_vendor_id=shows[0], subsystem_id=shows[1]))
    assert expected is images.fits(v.image(fits=(Fit(pci=PCI, subsystem=subsystem),)), card, v.component())


def test_a_subsystem_alone_is_no_id_of_a_card():
    """Its vendor gives the same one to boards of many kinds."""
    card = v.gpu(pci=replace(v.gpu().pci, subsystem_vendor_id='0x10de', subsystem_id='0x16c1'))
    image = v.image(fits=(Fit(model='H100', subsystem='0x10de:0x16c1'),))
    assert images.fits(image, card, v.component())
    assert images.by_name_only(image, card, v.component())


def test_half_a_pair_of_pci_ids_fits_nothing():
    """A card that shows its vendor alone may be any of that vendor."""
    half = v.gpu(pci=PciIds(vendor_id='0x10de'))
    assert not images.fits(v.image(fits=(Fit(pci='0x10de:None'),)), half, v.component())
    assert not images.fits(v.image(), half, v.component())


# ------------------------------------------------------------------------------------------------------------ what there is


def test_a_denied_version_is_known_by_whatever_image_brings_it():
    """Also by one that is written with a v, and also where another image of that version is not denied."""
    catalogue = (v.image('a', version='v1.0', denied='CVE-1'), v.image('b', version='1.0'))
    assert 'CVE-1' == images.denial(catalogue, v.gpu(), v.component(), '1.0')
    assert images.denial(catalogue, v.gpu(), v.component(), '1.1') is None
    assert images.denial(catalogue, v.gpu(), v.component(), None) is None


@pytest.mark.parametrize(
    'hides', [{'pci': PciIds()}, {'vendor': None}, {'model': None}, {'vendor': None, 'model': None, 'pci': PciIds()}]
)
def test_a_card_that_hides_its_ids_does_not_hide_a_denied_version(hides):
    """Nor the security version of what it runs: what is not said rules nothing out."""
    catalogue = (v.image('bad', version=v.OLD, security_version=9, denied='CVE-1'),)
    assert 'CVE-1' == images.denial(catalogue, v.gpu(**hides), v.component(), v.OLD)
    assert 9 == images.security_version(catalogue, v.gpu(**hides), v.component(), v.OLD)


@pytest.mark.parametrize(
    'other', [{'pci': PciIds(vendor_id='0x10de', device_id='0x2331')}, {'vendor': 'AMD'}, {'model': 'H200'}]
)
def test_what_is_denied_for_one_card_is_not_for_a_known_other_one(other):
    """Two products may count their versions alike."""
    catalogue = (v.image('bad', version=v.OLD, denied='CVE-1'),)
    assert images.denial(catalogue, v.gpu(**other), v.component(), v.OLD) is None


def test_a_function_image_says_nothing_of_firmware():
    """Their versions have nothing to do with one another."""
    catalogue = (v.function_image(fits=v.image().fits, component='*', version=v.OLD, denied='CVE-1'),)
    assert images.denial(catalogue, v.gpu(), v.component(), v.OLD) is None


# ------------------------------------------------------------------------------------------------------------- the way there


def step(version, *via, **other):
    return v.image(f'gpu-{version}', version=version, via=via, **other)


def names(catalogue, target, running=v.OLD):
    found = images.way(catalogue, v.gpu(), v.component(version=running), target)
    return None if found is None else [i.version for i in found]


def test_an_image_for_any_version_goes_straight():
    """No via, no steps."""
    assert ['2.0'] == names((step('1.5'), step('2.0')), step('2.0'))


def test_an_image_goes_over_the_versions_that_it_names():
    """The running one is among them, however it is written."""
    target = step('2.0', '0.9', 'v1.0')
    assert ['2.0'] == names((target,), target)


def test_the_shortest_way_is_found():
    """Not the one that comes first in the catalogue."""
    target = step('4.0', '3.0', '2.0')
    catalogue = (target, step('3.0', '2.5'), step('2.5', '1.0'), step('2.0', '1.0'))
    assert ['2.0', '4.0'] == names(catalogue, target)
    assert ['2.0', '4.0'] == names(catalogue[::-1], target)


def test_of_two_ways_of_one_length_the_first_named_one_counts():
    """The order of via decides, not that of the images."""
    catalogue = (step('2.0', '1.0'), step('3.0', '1.0'))
    for images_ in (catalogue, catalogue[::-1]):
        assert ['3.0', '4.0'] == names(images_, step('4.0', '3.0', '2.0'))
        assert ['2.0', '4.0'] == names(images_, step('4.0', '2.0', '3.0'))


def test_versions_that_lead_in_a_circle_lead_nowhere():
    """And the search ends."""
    target = step('4.0', '3.0')
    assert names((target, step('3.0', '2.0'), step('2.0', '3.0', '4.0')), target) is None


def test_a_version_that_runs_may_be_written_over_itself():
    """Without a way back down and up again."""
    target = step('1.0', '0.5')
    assert ['1.0'] == names((target, step('0.5')), target)


@pytest.mark.parametrize(
    'other',
    [
        {'denied': 'CVE-1'},
        {'fits': (Fit(pci='0x10de:0x9999'),)},
        {'component': 'Other'},
        {'kind': ImageKind.REVOCATION},
        {'kind': ImageKind.FUNCTION, 'function': 'x'},
    ],
)
def test_what_must_not_be_written_is_no_step(other):
    """A way that leads over it is no way."""
    target = step('2.0', '1.5')
    assert ['1.5', '2.0'] == names((target, step('1.5')), target)
    assert names((target, step('1.5', **other)), target) is None


def test_a_version_that_two_images_bring_is_no_step():
    """The plan does not choose."""
    target = step('2.0', '1.5')
    assert names((target, step('1.5'), v.image('twin', version='V1.5')), target) is None


def test_a_long_way_is_found_quickly():
    """A catalogue of a thousand versions, each over the one before."""
    catalogue = [step(f'{n}', *([f'{n - 1}'] if n else [])) for n in range(1, 1000)]
    assert 999 == len(names(catalogue, catalogue[-1], running='0'))
