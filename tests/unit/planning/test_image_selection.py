# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When two versions are one, which image is for which card, and over which versions it gets there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.model.accelerator import PciIds
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.planning import image_selection
from baremetal_acc.planning.image_selection import same_version
from tests.unit.planning import values as v

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
    assert expected is image_selection.by_name_only(v.image(fits=(fit,)), v.gpu(), v.component())


def test_a_card_that_also_fits_by_an_id_does_not_fit_by_name_only():
    """One fit with an id is enough."""
    both = v.image(fits=(Fit(model='H100'), Fit(pci=PCI)))
    assert not image_selection.by_name_only(both, v.gpu(), v.component())
    software = v.image(fits=(Fit(model='H100'), Fit(software_id='0x0020')))
    assert not image_selection.by_name_only(software, v.gpu(), v.component(software_id='0x0020'))
    assert image_selection.by_name_only(software, v.gpu(), v.component(software_id='0x0021'))


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
    assert expected is image_selection.fits(v.image(fits=(Fit(pci=PCI, subsystem=subsystem),)), card, v.component())


def test_a_subsystem_alone_is_no_id_of_a_card():
    """Its vendor gives the same one to boards of many kinds."""
    card = v.gpu(pci=replace(v.gpu().pci, subsystem_vendor_id='0x10de', subsystem_id='0x16c1'))
    image = v.image(fits=(Fit(model='H100', subsystem='0x10de:0x16c1'),))
    assert image_selection.fits(image, card, v.component())
    assert image_selection.by_name_only(image, card, v.component())


def test_half_a_pair_of_pci_ids_fits_nothing():
    """A card that shows its vendor alone may be any of that vendor."""
    half = v.gpu(pci=PciIds(vendor_id='0x10de'))
    assert not image_selection.fits(v.image(fits=(Fit(pci='0x10de:None'),)), half, v.component())
    assert not image_selection.fits(v.image(), half, v.component())


SOFTWARE = Fit(model='H100', software_id='0x0020')


def test_a_software_id_is_asked_of_the_component():
    """Boards of one model carry several; one that is not shown is another one, and where it is asked it is an id."""
    image = v.image(fits=(Fit(pci='0x1:0x2'), SOFTWARE))
    for component in (v.component(software_id='0x0020'), v.component(software_id='0X0020')):
        assert image_selection.fits(image, v.gpu(), component)
        assert image_selection.meant_for(image, v.gpu(), component)
        assert not image_selection.by_name_only(image, v.gpu(), component)
        assert () == image_selection.for_others((image,), v.gpu(), component, v.NEW)
    for component in (v.component(software_id='0x0021'), v.component(software_id=None)):
        assert not image_selection.fits(image, v.gpu(), component)
        assert not image_selection.meant_for(image, v.gpu(), component)
        assert (image,) == image_selection.for_others((image,), v.gpu(), component, v.NEW)
    assert not image_selection.fits(image, v.gpu(), None)


@pytest.mark.parametrize(
    ('image', 'component', 'meant', 'others'),
    [
        (v.image(), v.component(), True, False),
        (v.image(version='V2.0 ', component='gpu_?'), v.component(), True, False),
        (v.image(version='2.1'), v.component(), False, False),
        (v.image(kind=ImageKind.REVOCATION), v.component(), False, False),
        (v.image(component='NIC_*'), v.component(), False, False),
        (v.image(), v.component(name=None, software_id=None), False, False),
        (v.image(fits=(Fit(pci='0x10de:0x9999'),)), v.component(), False, True),
        (v.image(fits=(Fit(pci='0x10de:0x9999'),), version='2.1'), v.component(), False, False),
        (v.image(fits=(Fit(pci='0x10de:0x9999'),), kind=ImageKind.REVOCATION), v.component(), False, False),
        (v.image(fits=(Fit(pci='0x10de:0x9999'),), component='NIC_*'), v.component(), False, False),
        (v.image(fits=(Fit(pci='0x10de:0x9999'),)), replace(v.component(), id=None), False, False),
    ],
)
def test_an_image_of_firmware_is_for_a_component_a_version_and_the_ids_of_a_device(image, component, meant, others):
    """All of that; with other ids alone it is told of, since the wrong line of the catalogue may be the reason."""
    assert ((image,) if meant else ()) == image_selection.firmware_image((image,), v.gpu(), component, v.NEW)
    assert ((image,) if others else ()) == image_selection.for_others((image,), v.gpu(), component, v.NEW)


def test_a_revocation_is_meant_for_a_device_where_one_is_asked_for():
    """By its kind, as firmware is where nothing else is said."""
    revocation = v.image(kind=ImageKind.REVOCATION)
    assert image_selection.meant_for(revocation, v.gpu(), v.component(), ImageKind.REVOCATION)
    assert not image_selection.meant_for(revocation, v.gpu(), v.component())
    assert not image_selection.meant_for(v.image(), v.gpu(), v.component(), ImageKind.REVOCATION)


@pytest.mark.parametrize(
    ('image', 'expected'),
    [
        (v.function_image(), True),
        (v.function_image(denied='CVE-1'), True),
        (v.function_image(component='SLOT?'), True),
        (v.function_image(function='zstd'), False),
        (v.function_image(kind=ImageKind.FIRMWARE), False),
        (v.function_image(component='Slot1'), False),
        (v.function_image(fits=(Fit(pci='0x8086:0x9999'),)), False),
        (v.function_image(fits=(Fit(model='Stratix', software_id='0x0077'),)), True),
        (v.function_image(fits=(Fit(model='Stratix', software_id='0x0078'),)), False),
    ],
)
def test_an_image_of_a_function_is_for_its_name_its_slot_and_the_ids_of_a_device(image, expected):
    """All of that; the SoftwareId is that of what stands for the slot."""
    slot = v.slot(0)
    slot = replace(slot, item=replace(slot.item, software_id='0x0077'))
    assert ((image,) if expected else ()) == image_selection.function_image((image,), v.fpga(), slot, 'gzip')


# ------------------------------------------------------------------------------------------- right before it is written


FIRMWARE = v.image()
FLASH = Flash(
    accelerator=v.GPU,
    component='GPU_0',
    ref=v.component().ref,
    image='gpu-new',
    version=v.NEW,
    expects=v.OLD,
    content=FIRMWARE.content,
)
SOMETHING_ELSE = 'image gpu-new does not fit this device, as catalogue and BMC are now: plan again'


def unfit(image=FIRMWARE, *more, action=FLASH, card=None, component=None, floor=0, **how):
    """Why it must not be written, with the catalogue that holds it."""
    component = component or v.component()
    return image_selection.unfit(action, image, (image, *more), card or v.gpu(), component, floor=floor, **how)


def test_what_was_planned_and_is_so_still_may_be_written():
    """The very image, however its version is written; by its version alone where the job was stored by an older version."""
    assert unfit() is None
    assert unfit(action=replace(FLASH, version='V2.0 ')) is None
    assert unfit(action=replace(FLASH, content=None)) is None
    assert unfit(floor=5) is None
    revocation = v.image(kind=ImageKind.REVOCATION)
    assert unfit(revocation, action=replace(FLASH, content=revocation.content)) is None
    assert unfit(v.image(fits=(Fit(model='H100'), Fit(software_id='0x0020')))) is None
    over = v.image(via=('0.9', '1.0'))
    assert unfit(over) is None
    # What a failed write has left may be anything.
    assert unfit(over, component=v.component(version=None), back=True) is None


@pytest.mark.parametrize(
    ('image', 'how', 'expected'),
    [
        (
            v.image(security_version=6),
            {},
            f'image gpu-new has changed since it was planned (firmware 6 sha256:{"0" * 64} instead of firmware 5 sha256:'
            f'{"0" * 64}): plan again',
        ),
        (v.image(version='2.1'), {}, 'image gpu-new is now version 2.1, but 2.0 was planned: plan again'),
        (
            v.image(version='2.1'),
            {'action': replace(FLASH, content=None)},
            'image gpu-new is now version 2.1, but 2.0 was planned: plan again',
        ),
        (v.image(kind=ImageKind.REVOCATION), {'action': replace(FLASH, content=None)}, SOMETHING_ELSE),
        (v.image(component='NIC_*'), {}, SOMETHING_ELSE),
        (FIRMWARE, {'component': v.component('NIC_0')}, SOMETHING_ELSE),
        (FIRMWARE, {'card': v.gpu(pci=PciIds())}, SOMETHING_ELSE),
        (v.image(fits=(Fit(model='H100', software_id='0x0020'),)), {'component': v.component(software_id='0')}, SOMETHING_ELSE),
        (v.image(fits=(Fit(model='H100'),)), {}, 'image gpu-new fits this device by vendor and model only'),
        (v.image(denied='CVE-1'), {}, 'version 2.0 is denied: CVE-1'),
        (FIRMWARE, {'floor': 6}, 'image gpu-new has security version 5, the floor is 6'),
        (
            FIRMWARE,
            {'floor': 6, 'floor_rule': 'gpus'},
            'image gpu-new has security version 5, the floor is 6, which security_floor of rule gpus sets',
        ),
        (v.image(via=('0.8', '0.9')), {}, 'image gpu-new may be written over 0.8, 0.9 only: plan again'),
    ],
)
def test_why_what_was_planned_must_not_be_written_any_more_is_said(image, how, expected):
    """The catalogue, the baseline and the card may all have changed since the plan."""
    assert expected == unfit(image, **how)


def test_a_version_that_another_image_brings_and_the_catalogue_denies_is_not_written():
    """It is the firmware that is denied, whatever the image is called."""
    assert 'version 2.0 is denied: CVE-2' == unfit(FIRMWARE, v.image('other', version='v2.0', denied='CVE-2'))
    assert unfit(FIRMWARE, v.image('other', version='2.1', denied='CVE-2')) is None


FUNCTION = v.function_image()
PROGRAM = Program(
    accelerator=v.FPGA,
    slot='Slot0',
    ref=v.slot(0).item.ref,
    image='gzip-2',
    function='gzip',
    version=v.NEW,
    expects=v.NEW,
    content=FUNCTION.content,
)


@pytest.mark.parametrize(
    ('image', 'how', 'expected'),
    [
        (FUNCTION, {}, None),
        (FUNCTION, {'action': replace(PROGRAM, content=None)}, None),
        (v.function_image(denied='CVE-1'), {}, 'version 2.0 is denied: CVE-1'),
        (v.function_image(function='zstd'), {}, 'for'),
        (v.function_image(component='Slot1'), {}, 'for'),
        (FUNCTION, {'action': replace(PROGRAM, function='zstd')}, 'for'),
        (FUNCTION, {'action': replace(PROGRAM, slot='Slot1')}, 'for'),
        (FUNCTION, {'action': replace(PROGRAM, slot='Slot7')}, 'for'),
        (FUNCTION, {'component': v.slot(1).item}, 'for'),
        (FUNCTION, {'card': v.fpga(slots=(replace(v.slot(0), item=None), v.slot(1)))}, 'for'),
        (v.function_image(fits=(Fit(vendor='Intel'),)), {}, 'image gzip-2 fits this device by vendor and model only'),
    ],
)
def test_a_function_is_written_where_it_belongs(image, how, expected):
    """Into the slot that was planned, whose item is the one that is written; what is denied is the very image."""
    how = {'action': PROGRAM, 'card': v.fpga(), 'component': v.slot(0).item} | how
    expected = (
        'image gzip-2 does not fit this device, as catalogue and BMC are now: plan again' if expected == 'for' else expected
    )
    assert expected == unfit(image, **how)
    assert expected == unfit(image, v.function_image('old', denied='CVE-9'), **how)


# ------------------------------------------------------------------------------------------------------- what a slot holds


def holding(**changes):
    """A slot whose function is as it is but for what is given, and what stands for it."""
    slot = v.slot(0)
    return replace(slot, function=replace(slot.function, **changes))


@pytest.mark.parametrize(
    ('slot', 'image', 'expected'),
    [
        (v.slot(0), v.function_image(), True),
        (v.slot(0), v.function_image(uuid=v.SLOT_UUID.upper()), True),
        (holding(uuid='A' * 36), v.function_image(uuid='a' * 36), True),
        (holding(id='x', name=None), v.function_image(), True),
        (v.slot(0), v.function_image(uuid='a' * 36), False),
        (holding(uuid=None), v.function_image(), False),
        (v.slot(0), v.function_image(version='v2.0'), True),
        (v.slot(0), v.function_image(version='2.1'), False),
        (v.slot(0, None), v.function_image(), False),
        (holding(uuid=None), v.function_image(uuid=None), True),
        (holding(id='1', name='GZIP'), v.function_image(uuid=None), True),
        (holding(id='Gzip', name='Something'), v.function_image(uuid=None, function='gZIP'), True),
        (holding(id='1', name='zstd'), v.function_image(uuid=None), False),
        (v.slot(0), v.function_image(uuid=None, function=None), False),
    ],
)
def test_a_slot_holds_a_function_by_uuid_or_by_name_and_in_its_version(slot, image, expected):
    """By UUID where the catalogue gives one, and then by nothing else; names count without case."""
    assert expected is image_selection.holds(slot, image)


STAGED = replace(v.slot(0), item=replace(v.slot(0).item, staged='3.0'))


@pytest.mark.parametrize(
    ('slot', 'catalogue', 'expected'),
    [
        (v.slot(0), (v.function_image(),), 'gzip'),
        (v.slot(0), (v.function_image(), v.function_image('again')), 'gzip'),
        (v.slot(0), (), None),
        (v.slot(0, None), (v.function_image(),), None),
        (v.slot(0), (v.function_image(version='2.1'),), None),
        (v.slot(0), (v.function_image(), v.function_image('other', function='zstd')), None),
        (v.slot(0), (v.function_image(), v.function_image('other', function='zstd', component='Slot1')), 'gzip'),
        (v.slot(0), (v.function_image(denied='CVE-1'),), None),
        (v.slot(0), (v.function_image(), v.function_image('again', denied='CVE-1')), None),
        (v.slot(0), (v.function_image(fits=(Fit(model='Stratix'),)),), None),
        (v.slot(0), (v.function_image(fits=(Fit(model='Stratix', software_id='0x77'),)),), None),
        (
            replace(v.slot(0), item=replace(v.slot(0).item, software_id='0x77')),
            (v.function_image(fits=(Fit(model='Stratix'), Fit(software_id='0x77'))),),
            'gzip',
        ),
        (v.slot(0), (v.image(),), None),
        (STAGED, (v.function_image(),), None),
        (replace(v.slot(0), item=replace(v.slot(0).item, staged='V2.0')), (v.function_image(),), 'gzip'),
        (replace(v.slot(0), item=None), (v.function_image(),), 'gzip'),
    ],
)
def test_what_a_slot_holds_is_known_where_the_catalogue_leaves_no_doubt(slot, catalogue, expected):
    """One function, denied by no image, for this very device by an id, and nothing else waits for a reset."""
    assert expected == image_selection.held(catalogue, v.fpga(), slot)


def test_what_waits_for_a_reset_is_one_of_the_images_or_something_else():
    """A slot without an item tells of nothing that waits."""
    assert image_selection.other_staged(STAGED, (v.function_image(), v.function_image('b', version='2.1')))
    assert image_selection.other_staged(STAGED, ())
    assert not image_selection.other_staged(STAGED, (v.function_image(), v.function_image('b', version='v3.0')))
    assert not image_selection.other_staged(v.slot(0), ())
    assert not image_selection.other_staged(replace(STAGED, item=None), ())


def test_a_function_is_called_by_its_name():
    """And by the Id of its resource where it has none."""
    assert 'gzip' == image_selection.shown(v.slot(0).function)
    assert 'Gzip 9' == image_selection.shown(replace(v.slot(0).function, name='Gzip 9'))


@pytest.mark.parametrize(
    ('image', 'changes', 'expected'),
    [
        (v.function_image(denied='CVE-1'), {}, True),
        (v.function_image(), {}, False),
        (v.function_image(denied='CVE-1', component='SLOT0'), {}, True),
        (v.function_image(denied='CVE-1', component='Slot1'), {}, False),
        (v.function_image(denied='CVE-1', version='2.1'), {}, False),
        (v.function_image(denied='CVE-1', kind=ImageKind.FIRMWARE), {}, False),
        (v.function_image(denied='CVE-1'), {'pci': PciIds()}, True),
        (v.function_image(denied='CVE-1'), {'pci': PciIds(vendor_id='0x8086', device_id='0x9999')}, False),
        (v.function_image(denied='CVE-1', fits=(Fit(software_id='0x0020'),)), {}, False),
    ],
)
def test_a_function_that_is_denied_is_known_in_a_slot_that_may_hold_it(image, changes, expected):
    """What the BMC does not show of the card rules nothing out; what it shows and is another one does."""
    slot = replace(v.slot(0), item=replace(v.slot(0).item, software_id='0x0021'))
    assert ((image,) if expected else ()) == image_selection.denied_functions((image,), v.fpga(**changes), slot)


# ------------------------------------------------------------------------------------------------------------ what there is


def test_a_denied_version_is_known_by_whatever_image_brings_it():
    """Also by one that is written with a v, and also where another image of that version is not denied."""
    catalogue = (v.image('a', version='v1.0', denied='CVE-1'), v.image('b', version='1.0'))
    assert 'CVE-1' == image_selection.denial(catalogue, v.gpu(), v.component(), '1.0')
    assert image_selection.denial(catalogue, v.gpu(), v.component(), '1.1') is None
    assert image_selection.denial(catalogue, v.gpu(), v.component(), None) is None


def test_all_that_is_said_of_a_version_is_told_and_the_highest_security_version_counts():
    """Several images may bring it, for components of that name; a component without an Id may be any."""
    catalogue = (
        v.image('a', security_version=4, denied='CVE-2'),
        v.image('b', security_version=7, denied='CVE-1', component='gpu_0'),
        v.image('c', security_version=6, denied='CVE-2'),
        v.image('d', security_version=8, denied='CVE-3', component='GPU_1'),
        v.image('e', security_version=9, denied='CVE-4', version='3.0'),
    )
    assert 'CVE-1; CVE-2' == image_selection.denial(catalogue, v.gpu(), v.component(), v.NEW)
    assert 7 == image_selection.security_version(catalogue, v.gpu(), v.component(), v.NEW)
    nameless = replace(v.component(), id=None)
    assert 'CVE-1; CVE-2; CVE-3' == image_selection.denial(catalogue, v.gpu(), nameless, v.NEW)
    assert 8 == image_selection.security_version(catalogue, v.gpu(), nameless, v.NEW)
    assert image_selection.security_version(catalogue, v.gpu(), v.component(), '4.0') is None
    other = (v.image(fits=(SOFTWARE,), denied='CVE-1'),)
    assert image_selection.denial(other, v.gpu(), v.component(software_id='0x0021'), v.NEW) is None
    assert 'CVE-1' == image_selection.denial(other, v.gpu(), v.component(software_id=None), v.NEW)


@pytest.mark.parametrize(
    'hides', [{'pci': PciIds()}, {'vendor': None}, {'model': None}, {'vendor': None, 'model': None, 'pci': PciIds()}]
)
def test_a_card_that_hides_its_ids_does_not_hide_a_denied_version(hides):
    """Nor the security version of what it runs: what is not said rules nothing out."""
    catalogue = (v.image('bad', version=v.OLD, security_version=9, denied='CVE-1'),)
    assert 'CVE-1' == image_selection.denial(catalogue, v.gpu(**hides), v.component(), v.OLD)
    assert 9 == image_selection.security_version(catalogue, v.gpu(**hides), v.component(), v.OLD)


@pytest.mark.parametrize(
    'other', [{'pci': PciIds(vendor_id='0x10de', device_id='0x2331')}, {'vendor': 'AMD'}, {'model': 'H200'}]
)
def test_what_is_denied_for_one_card_is_not_for_a_known_other_one(other):
    """Two products may count their versions alike."""
    catalogue = (v.image('bad', version=v.OLD, denied='CVE-1'),)
    assert image_selection.denial(catalogue, v.gpu(**other), v.component(), v.OLD) is None


def test_a_function_image_says_nothing_of_firmware():
    """Their versions have nothing to do with one another."""
    catalogue = (v.function_image(fits=v.image().fits, component='*', version=v.OLD, denied='CVE-1'),)
    assert image_selection.denial(catalogue, v.gpu(), v.component(), v.OLD) is None


# ------------------------------------------------------------------------------------------------------------- the way there


def step(version, *via, **other):
    return v.image(f'gpu-{version}', version=version, via=via, **other)


def names(catalogue, target, running=v.OLD):
    found = image_selection.way(catalogue, v.gpu(), v.component(version=running), target)
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
