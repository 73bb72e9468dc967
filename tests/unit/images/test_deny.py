# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the deny-list of a catalogue stops, and what it leaves alone."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue, deny
from baremetal_acc.model.image import ImageKind
from tests.unit.images.test_catalogue import FIRMWARE, FUNCTION

DIGEST = f'sha256:{"a1" * 32}'


def denied(table: str) -> list[str | None]:
    """What is said of the two images."""
    text = f'{FIRMWARE}{FUNCTION}[[deny]]\nreason = "it bricks"\n{table}\n'
    return [image.denied for image in catalogue.parse(text, '/etc/x/catalogue.toml')]


@pytest.mark.parametrize(
    'table',
    [
        f'digest = "{DIGEST}"',
        f'digest = "{DIGEST.upper().replace("SHA", "sha")}"',
        'component = "HGX_FW_GPU_*"\nversion = "96.00"',
        'component = "hgx_fw_gpu_7"\nversion = "V96.00"',
        'component = "*_7"\nversion = "96.00"',
        'component = "HGX_FW_[A-H]PU_?"\nversion = "96.00"',
        'fits = [{ pci = "0x10de:0x2330" }]\nversion = "96.00"',
        'fits = [{ vendor = "nvidia" }]\nversion = " v96.00 "',
        'fits = [{ vendor = "NVIDIA", pci = "0x10de:0x2330" }]\nversion = "96.00"',
        'fits = [{ model = "A100" }, { model = "h200" }]\ncomponent = "*"\nversion = "96.00"',
    ],
)
def test_what_may_be_meant_is_denied(table):
    """By its bytes, or by a version of a component or a device that the image could be written to."""
    assert ['it bricks', None] == denied(table)


@pytest.mark.parametrize(
    'table',
    [
        f'digest = "sha256:{"a2" * 32}"',
        'component = "HGX_FW_CPU_*"\nversion = "96.00"',
        'component = "HGX_FW_GPU"\nversion = "96.00"',
        'component = "*"\nversion = "96.01"',
        'fits = [{ pci = "0x10de:0x2331", vendor = "AMD" }]\nversion = "96.00"',
        f'digest = "{DIGEST}"\ncomponent = "Slot*"',
    ],
)
def test_what_cannot_be_meant_is_not_denied(table):
    """Another version, other bytes, a component or a device that no such image is for."""
    assert [None, None] == denied(table)


def test_every_reason_is_told():
    """Once."""
    table = 'component = "*"\nversion = "96.00"\n[[deny]]\nreason = "{}"\ndigest = "' + DIGEST + '"'
    assert 'it bricks; it leaks' == denied(table.format('it leaks'))[0]
    assert 'it bricks' == denied(table.format('it bricks'))[0]


@pytest.mark.parametrize(
    ('table', 'says'),
    [
        ('', r'deny\[0\]: has neither version nor digest, of which one is required'),
        ('component = "*"', r'deny\[0\]: has neither version nor digest'),
        ('version = "96.00"', 'would be denied for every component of every device: add component or fits'),
        ('version = "96.00"\nfits = [{}]', 'has no id: the image would fit every device'),
        ('version = "96.00"\ncomponent = "x"\nreasons = "y"', 'reasons: no such key'),
        (f'version = "1"\ncomponent = "{"*" * 201}"', 'longer than 200 characters'),
        ('digest = "md5:00"', "'md5' is none of sha256, sha512"),
        ('digest = "sha256:00"', '64 hexadecimal digits expected'),
    ],
)
def test_a_denial_that_says_too_little_is_told(table, says):
    """A deny-list that denies nothing, unnoticed, is worse than none."""
    with pytest.raises(DocumentError, match=says):
        denied(table)


def test_a_denial_gives_its_reason():
    """Somebody will ask."""
    with pytest.raises(DocumentError, match='reason is missing'):
        catalogue.parse(f'format = 1\n[[deny]]\ndigest = "{DIGEST}"\n', 'c')


@settings(max_examples=300, deadline=None)
@given(st.text('ab*?', max_size=5), st.text('ab*?', max_size=5), st.text('ab', max_size=5))
def test_patterns_that_match_one_name_overlap(one, other, name):
    """The deny-list never misses an image because its pattern is written differently."""
    if fnmatchcase(name, one) and fnmatchcase(name, other):
        assert deny.overlap(one, other)
    assert deny.overlap(one, other) == deny.overlap(other, one)


@settings(max_examples=1500, deadline=None)
@given(st.text('a]*?[!-', max_size=6), st.text('a]*?[!-', max_size=6), st.text('a]![-', max_size=3))
@example('[]a]*', 'a*', 'a')
@example('[!]]', 'a', 'a')
def test_patterns_with_classes_that_match_one_name_overlap(one, other, name):
    """Also where a closing bracket is one of the characters."""
    if fnmatchcase(name, one) and fnmatchcase(name, other):
        assert deny.overlap(one, other)


@settings(max_examples=300, deadline=None)
@given(st.text('ab*?', max_size=5), st.text('ab', max_size=5))
def test_a_name_overlaps_what_matches_it_and_nothing_else(pattern, name):
    """A name is a pattern that matches itself."""
    assert fnmatchcase(name, pattern) == deny.overlap(pattern, name)


REVOCATION = FIRMWARE.replace('kind = "firmware"', 'kind = "revocation"')


def test_a_revocation_cannot_be_undone():
    """It says so itself, and no firmware goes back to one."""
    (image,) = catalogue.parse(REVOCATION, 'c')
    assert (ImageKind.REVOCATION, None) == (image.kind, image.restore)
    with pytest.raises(DocumentError, match='restore is missing'):
        catalogue.parse(REVOCATION.replace('restore = "none"', ''), 'c')
    second = REVOCATION.removeprefix('format = 1\n').replace('gpu-2', 'gpu-3')
    with pytest.raises(DocumentError, match='a revocation cannot be undone: write restore = "none"'):
        catalogue.parse(REVOCATION.replace('"none"', '"gpu-3"') + second, 'c')
    with pytest.raises(DocumentError, match="'gpu-3' is not another firmware image"):
        catalogue.parse(FIRMWARE.replace('"none"', '"gpu-3"') + second, 'c')
