# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A draft of a catalogue's entry says what the package says, is refused until it is complete, and obeys no text in it."""

import re
import tomllib
from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue, draft
from baremetal_acc.images.pldm import (
    Activation,
    Classification,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    PackageComponent,
    PldmPackage,
    PldmString,
    Revision,
    StringType,
)
from baremetal_acc.model.image import Fit
from baremetal_acc.model.lock import ResetKind

FILE = draft.File(source='tray.fwpkg', size_bytes=4096, digest='sha256:' + 'ab' * 32)

FILLED = (
    ('# component = "..."', 'component = "HGX_FW_GPU_*"'),
    ('# security_version = 0', 'security_version = 7'),
    ('# restore = "..."', 'restore = "none"'),
    ('# fits = [{ pci = "0x....:0x...." }]', 'fits = [{ pci = "0xabcd:0x0001" }]'),
    ('# version = "..."', 'version = "2"'),
    ('# targets = ["/redfish/v1/..."]', 'targets = "none"'),
)


def string(text):
    return PldmString(type=StringType.UTF_8, raw=text.encode())


def pci(vendor, device, *subsystem):
    kinds = (
        DescriptorType.PCI_VENDOR_ID,
        DescriptorType.PCI_DEVICE_ID,
        DescriptorType.PCI_SUBSYSTEM_VENDOR_ID,
        DescriptorType.PCI_SUBSYSTEM_ID,
    )
    ids = (vendor, device, *subsystem)
    return tuple(Descriptor(type=kind, data=one.to_bytes(2, 'little')) for kind, one in zip(kinds, ids, strict=False))


def device(*descriptors, components=(0,)):
    return DeviceRecord(image_set_version=string('set'), components=frozenset(components), descriptors=descriptors)


def component(identifier=100, version='96.00.5E', activation=Activation.DC_POWER_CYCLE):
    return PackageComponent(
        classification=Classification.FIRMWARE,
        identifier=identifier,
        activation=activation,
        offset=200,
        size_bytes=100,
        version=string(version),
    )


PACKAGE = PldmPackage(
    revision=Revision.V1_0,
    version=string('tray-1'),
    bitmap_bits=8,
    devices=(
        device(*pci(0x10DE, 0x2330, 0x10DE, 0x16C1)),
        device(*pci(0x10DE, 0x2331)),
        device(*pci(0x1, 0x2), components=(1,)),
    ),
    components=(component(), component(200)),
)


def filled(text):
    for old, new in FILLED:
        text = text.replace(old, new)
    return catalogue.parse('format = 1\n' + text, 'catalogue.toml')


def test_a_draft_says_what_the_package_says():
    """Version, source, size, digest, reset and the PCI ids of the devices that get this component."""
    (image,) = filled(draft.entry(PACKAGE, 0, 'tray-100', FILE))
    assert ('tray-100', '96.00.5E', 'tray.fwpkg', 4096) == (image.name, image.version, image.source, image.size_bytes)
    assert FILE.digest == str(image.digest)
    assert (Fit(pci='0x10de:0x2330', subsystem='0x10de:0x16c1'), Fit(pci='0x10de:0x2331')) == image.fits
    assert ResetKind.POWER_CYCLE is image.reset
    (image,) = filled(draft.entry(PACKAGE, 1, 'tray-200', FILE))
    assert (Fit(pci='0x0001:0x0002'),) == image.fits


@pytest.mark.parametrize('missing', [old for old, _ in FILLED[:3]])
def test_a_draft_is_refused_until_it_is_complete(missing):
    """What the package does not say is never guessed."""
    text = draft.entry(PACKAGE, 0, 'tray-100', FILE)
    for old, new in FILLED:
        if old != missing:
            text = text.replace(old, new)
    with pytest.raises(DocumentError, match=f'{missing.split()[1]} is missing'):
        catalogue.parse('format = 1\n' + text, 'catalogue.toml')


def test_what_brings_it_in_force_is_what_the_header_requests():
    """The strongest of what it names; an AC power cycle is a question to the operator, for no System has such a reset."""
    for activation, reset in (
        (Activation.AUTOMATIC, ResetKind.NONE),
        (Activation.SYSTEM_REBOOT | Activation.AUTOMATIC, ResetKind.SYSTEM_RESET),
        (Activation.SYSTEM_REBOOT | Activation.DC_POWER_CYCLE, ResetKind.POWER_CYCLE),
        (Activation.AC_POWER_CYCLE | Activation.DC_POWER_CYCLE, ResetKind.NONE),
    ):
        package = replace(PACKAGE, components=(component(activation=activation),))
        text = draft.entry(package, 0, 'x', FILE)
        (image,) = filled(text)
        assert reset is image.reset
        assert (Activation.AC_POWER_CYCLE in activation) == ('requests an AC power cycle' in text)


def test_ids_that_a_catalogue_does_not_know_are_filled_in_by_people():
    """A UUID, as trays have it, names no PCI device."""
    uuid = Descriptor(type=DescriptorType.UUID, data=bytes(16))
    text = draft.entry(replace(PACKAGE, devices=(device(uuid),)), 0, 'x', FILE)
    assert '# fits = ' in text
    with pytest.raises(DocumentError, match='fits is missing'):
        catalogue.parse('format = 1\n' + text.replace('# restore = "..."', 'restore = "none"'), 'catalogue.toml')
    text = draft.entry(replace(PACKAGE, devices=(device(uuid), *PACKAGE.devices)), 0, 'x', FILE)
    assert '# fill in: the package is also for devices' in text


def test_no_text_of_a_package_becomes_a_line():
    """Neither as a value nor in a comment, nor does a terminal obey it."""
    for evil in ('1"\n[[image]]\nname = "evil"\n#', 'x\x1b[2J\x7f\u202e\\', "'''\r\n[[deny]]"):
        package = replace(PACKAGE, version=string(evil), components=(component(version=evil),))
        file = replace(FILE, source=evil.replace('\n', '\r'))
        text = draft.entry(package, 0, 'x', file)
        assert all(line.isprintable() for line in text.split('\n'))
        (image,) = tomllib.loads(text)['image']
        assert (evil, file.source) == (image['version'], image['source'])
        with pytest.raises(DocumentError, match='holds characters that cannot be printed'):
            filled(text)
    package = replace(PACKAGE, components=(component(version='1"\\ #'),))
    assert '1"\\ #' == filled(draft.entry(package, 0, 'x', FILE))[0].version
    package = replace(PACKAGE, components=(component(version=''),))
    assert '# version = "..."' in draft.entry(package, 0, 'x', FILE)


def test_names_are_names_and_differ():
    """Those that a catalogue takes, whatever the file is called and however often an identifier is used."""
    for stem, ids, names in (
        ('tray', (100,), ('tray',)),
        ('tray', (100, 200), ('tray-100', 'tray-200')),
        ('tray', (1, 1), ('tray-1-0', 'tray-1-1')),
        ('.. ä/x', (1,), ('x',)),
        ('ä', (1,), ('package',)),
    ):
        package = replace(PACKAGE, components=tuple(component(one) for one in ids))
        assert names == draft.names(package, stem)
    long = draft.names(replace(PACKAGE, components=(component(1), component(2))), 'y' * 300)
    assert all(re.fullmatch('y{98}-[12]', name) for name in long)
