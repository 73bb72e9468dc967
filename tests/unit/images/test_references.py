# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The catalogue says what a device measures that runs an image, in words that cannot be misread."""

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.catalogue import parse
from baremetal_acc.model.image import ReferenceValue

IMAGE = """format = 1
[[image]]
name = "gpu-2"
kind = "{kind}"
fits = [{{ pci = "0x10de:0x2330" }}]
component = "GPU_*"
version = "2"
security_version = 1
source = "gpu-2.bin"
size = 1
digest = "sha256:{digest}"
restore = "none"
[image.measurements]
{measurements}
"""


def images(measurements: str, kind: str = 'firmware'):
    return parse(IMAGE.format(measurements=measurements, kind=kind, digest='0' * 64), 'catalogue.toml')


def test_reference_values_are_read_by_root_of_trust_and_index():
    """One value or several, of one root of trust or of any; letters of either case."""
    (image,) = images(f'"ROT_GPU_*/2" = "sha384:{"AB" * 48}"\n3 = ["raw:01ff", "sha256:{"0c" * 32}"]\n')
    assert (
        ReferenceValue(integrity='ROT_GPU_*', index=2, values=(('sha384', 'ab' * 48),)),
        ReferenceValue(integrity='*', index=3, values=(('raw', '01ff'), ('sha256', '0c' * 32))),
    ) == image.measurements


@pytest.mark.parametrize(
    ('measurements', 'why'),
    [
        ('0 = "raw:00"', "'0' is not an index of a measurement"),
        ('255 = "raw:00"', "'255' is not an index"),
        ('"ROT" = "raw:00"', "'ROT' is not an index"),
        ('"/2" = "raw:00"', "'/2' is not an index"),
        ('"ROT/x" = "raw:00"', "'ROT/x' is not an index"),
        ('"²" = "raw:00"', 'is not an index of a measurement'),
        ('2 = []', 'is empty'),
        ('2 = 5', 'text expected'),
        ('2 = "00"', 'names no algorithm'),
        ('2 = "sha834:00"', 'did you mean sha384'),
        ('2 = "sha384:00"', '96 hexadecimal digits expected'),
        ('2 = "raw:0"', 'an even number'),
        ('2 = "raw:"', 'hexadecimal digits expected'),
        (f'2 = "raw:{"00" * 65}"', 'at most 128'),
        (f'"{"x" * 201}/2" = "raw:00"', 'longer than 200'),
    ],
)
def test_what_cannot_be_a_reference_value_is_an_error_with_its_line(measurements, why):
    """A typing error must not become a value that nothing ever has, or a place that nothing ever is."""
    with pytest.raises(DocumentError, match=f'catalogue.toml, line 1[34]: .*{why}'):
        images(measurements)


def test_functions_and_revocations_have_no_reference_values():
    """The firmware is what is measured."""
    with pytest.raises(DocumentError, match='is for images of kind "firmware" only'):
        images('2 = "raw:00"', kind='revocation')
