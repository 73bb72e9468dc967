# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A bundle of a catalogue becomes an image for each of its components, that share a file; what is wrong is named."""

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue
from baremetal_acc.images.trust import signature
from baremetal_acc.model.image import BundlePart, Fit
from baremetal_acc.model.lock import ResetKind

DIGEST = 'sha256:' + 'ab' * 32

TEXT = f"""format = 1

[[bundle]]
name = "tray-2"
source = "tray-2.fwpkg"
size = 10
digest = "{DIGEST}"
signature = "tray-2.sig"
targets = ["/redfish/v1/Chassis/HGX_Chassis_0"]
component_targets = true
restore = "tray-1"
security_version = 3
fits = [{{ pci = "0x10de:0x2901" }}]
apply = {{ reset = "power-cycle", order = 4 }}

[[bundle.component]]
name = "gpu"
component = "HGX_FW_GPU_*"
identifier = 0x0020
version = "2.0"
security_version = 5

[[bundle.component]]
name = "switch"
component = "HGX_FW_NVSwitch_*"
version = "2.1"
fits = [{{ pci = "0x10de:0x22a3" }}]
apply = {{ reset = "system-reset" }}

[[bundle]]
name = "tray-1"
source = "tray-1.fwpkg"
size = 9
digest = "{DIGEST}"
targets = "none"
restore = "none"
security_version = 3
fits = [{{ pci = "0x10de:0x2901" }}]

[[bundle.component]]
name = "gpu"
component = "HGX_FW_GPU_*"
version = "1.0"
"""


def parse(text=TEXT):
    """The images by their names."""
    return {image.name: image for image in catalogue.parse(text, '/c/catalogue.toml')}


def test_each_component_is_an_image_that_shares_the_file_of_its_bundle():
    """What its own table does not say, that of the bundle does; it goes back to the component of that name."""
    found = parse()
    assert ['tray-2.gpu', 'tray-2.switch', 'tray-1.gpu'] == list(found)
    gpu, switch, older = found.values()
    assert (5, 3) == (gpu.security_version, switch.security_version)
    assert (Fit(pci='0x10de:0x2901'),) == gpu.fits
    assert (Fit(pci='0x10de:0x22a3'),) == switch.fits
    assert (ResetKind.POWER_CYCLE, ResetKind.SYSTEM_RESET, 4) == (gpu.reset, switch.reset, switch.order)
    assert {('/c/tray-2.fwpkg', 10, '/c/tray-2.sig')} == {(i.source, i.size_bytes, i.signature) for i in (gpu, switch)}
    assert ('tray-1.gpu', None, None) == (gpu.restore, switch.restore, older.restore)
    assert (0x20, None) == (gpu.identifier, switch.identifier)
    assert gpu.bundle == switch.bundle
    assert gpu.bundle is not None
    assert older.bundle is not None
    assert ('tray-2', ('/redfish/v1/Chassis/HGX_Chassis_0',), True) == (
        gpu.bundle.name,
        gpu.bundle.targets,
        gpu.bundle.component_targets,
    )
    assert BundlePart(component='HGX_FW_GPU_*', version='2.0', identifier=0x20) == gpu.bundle.parts[0]
    assert (None, False) == (older.bundle.targets, older.bundle.component_targets)


def test_a_signature_is_over_the_file_and_so_over_the_name_of_the_bundle():
    """All of its components have one."""
    statements = {signature.image_statement(image) for name, image in parse().items() if name.startswith('tray-2')}
    assert {f'baremetal-acc image 1\ntray-2\n10\n{DIGEST}\n'.encode()} == statements


def test_an_empty_list_of_targets_is_another_thing_than_none():
    """Makers mean different trays by them."""
    bundle = parse(TEXT.replace('["/redfish/v1/Chassis/HGX_Chassis_0"]', '[]'))['tray-2.gpu'].bundle
    assert bundle is not None
    assert () == bundle.targets


def test_a_denied_version_of_one_component_is_that_of_this_component():
    """The others say what runs."""
    deny = '\n[[deny]]\nreason = "it burns"\ncomponent = "HGX_FW_GPU_*"\nversion = "2.0"\n'
    found = parse(TEXT + deny)
    assert ('it burns', None) == (found['tray-2.gpu'].denied, found['tray-2.switch'].denied)


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'what'),
    [
        ('targets = ["/redfish/v1/Chassis/HGX_Chassis_0"]\n', '', 3, 'targets is missing'),
        ('["/redfish/v1/Chassis/HGX_Chassis_0"]', '"all"', 9, "'all' is not a list"),
        ('"/redfish/v1/Chassis/HGX_Chassis_0"', '"HGX_0"', 9, 'is not a Redfish URI'),
        ('"/redfish/v1/Chassis/HGX_Chassis_0"', '"/redfish/v1/a b"', 9, 'is not a Redfish URI'),
        ('restore = "tray-1"\n', '', 3, 'restore is missing'),
        ('restore = "tray-1"', 'restore = "tray-0"', 11, "no bundle is called 'tray-0'"),
        ('restore = "tray-1"', 'restore = "tray-2"', 11, "'tray-2' is the bundle itself"),
        ('name = "tray-1"', 'name = "tray-2"', None, "two bundles are called 'tray-2'"),
        ('name = "switch"', 'name = "gpu"', None, "two components of bundle tray-2 are called 'gpu'"),
        ('identifier = 0x0020', 'identifier = 0x10000', 19, 'more than 65535'),
        ('reset = "system-reset"', 'reset = "reboot"', None, "'reboot' is none of none"),
        ('component_targets = true', 'component_target = true', 10, 'component_target'),
        ('security_version = 3\nfits = [{ pci = "0x10de:0x2901" }]\n\n', '\n', None, 'missing'),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old, new, line, what):
    """Nothing of the catalogue is used."""
    assert old in TEXT
    with pytest.raises(DocumentError, match=what) as caught:
        parse(TEXT.replace(old, new))
    if line is not None:
        assert f'line {line}:' in str(caught.value)


def test_a_bundle_without_components_and_an_image_that_goes_back_to_one_are_refused():
    """Everything that is written stands in the catalogue; a single image is no part of a bundle."""
    alone = TEXT[: TEXT.index('[[bundle.component]]')].replace('"tray-1"', '"none"')
    with pytest.raises(DocumentError, match=r'has no \[\[bundle.component\]\]'):
        parse(alone)
    image = (
        '\n[[image]]\nname = "one"\nkind = "firmware"\nfits = [{ pci = "0x10de:0x2901" }]\ncomponent = "HGX_FW_GPU_*"\n'
        f'version = "3"\nsecurity_version = 1\nsource = "one.bin"\nsize = 1\ndigest = "{DIGEST}"\nrestore = "tray-1.gpu"\n'
    )
    with pytest.raises(DocumentError, match='is not another firmware image'):
        parse(TEXT + image)
    with pytest.raises(DocumentError, match=r"two images are called 'tray-1\.gpu'"):
        parse(TEXT + image.replace('"tray-1.gpu"', '"none"').replace('"one"', '"tray-1.gpu"'))
