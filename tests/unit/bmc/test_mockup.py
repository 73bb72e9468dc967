# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A recorded tree lies within its folder whatever its URIs are, and is there as a whole or not at all."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.redfish import mockup

ROOT = '/redfish/v1'


@pytest.mark.parametrize(
    ('uri', 'parts'),
    [
        ('/redfish/v1', ()),
        ('/redfish/v1/', ()),
        ('/redfish/v1/Systems/1', ('Systems', '1')),
        ('/redfish/v1/Chassis/0000:3b:00.0', ('Chassis', '0000:3b:00.0')),
        ('/redfish/v1/Chassis/a%20b', ('Chassis', 'a b')),
        ('/redfish/v1/Oem/x_0x23_y', ('Oem', 'x_0x23_y')),
    ],
)
def test_a_plain_uri_has_its_folder(uri, parts):
    """Decoded once, as servers of such folders look it up."""
    assert ('redfish', 'v1', *parts) == mockup.place(uri)


@pytest.mark.parametrize(
    'uri',
    [
        '/redfish/v1/../../etc',
        '/redfish/v1/%2e%2e/x',
        '/redfish/v1/%2E%2E%2Fx',
        '/redfish/v1/a%2fb',
        '/redfish/v1/a%5cb',
        '/redfish/v1/a\\b',
        '/redfish/v1/./x',
        '/redfish/v1//x',
        '/redfish/v1/%252e%252e/x',
        '/redfish/v1/a%00b',
        '/redfish/v1/a\x1b[0m',
        '/redfish/v1/a%0ab',
        '/redfish/v1/\u202eabc',
        '/redfish/v1/' + 'a' * 300,
        '/redfish/v1' + '/a' * 60,
        '/redfish/v1/' + '/'.join(['a' * 150] * 8),
        '/redfish/v1/con',
        '/redfish/v1/NUL.txt',
        '/redfish/v1/Com1',
        '/redfish/v1/C:/x',
        '/redfish/v1/a.',
        '/redfish/v1/a ',
        '/redfish/v1/a%20',
        '/redfish/v1/a?b',
        '/redfish/v1/index.json',
        '/redfish/v1/INDEX.JSON/x',
        '/redfish/v2/x',
        '/etc/passwd',
        'https://elsewhere.example/redfish/v1',
        '',
        '\ud800',
    ],
)
def test_a_hostile_uri_has_none(uri):
    """No file of it, inside or outside."""
    with pytest.raises(mockup.NoPlace):
        mockup.place(uri)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.text(st.sampled_from('.%/\\:aA2eEfF5cC \0\n?#~'), max_size=20))
def test_no_uri_leads_out(tail):
    """Whatever stands behind the root, its folder lies below the top."""
    try:
        parts = mockup.place(f'{ROOT}/{tail}')
    except mockup.NoPlace:
        return
    top = Path('/top')
    assert top.joinpath(*parts).resolve().is_relative_to(top / 'redfish' / 'v1')
    assert [] == [p for p in parts if p in ('', '.', '..') or '/' in p]


def test_a_folder_is_whole_and_private(tmp_path: Path):
    """It has its name when the block has ended, and only its owner can read it."""
    there = tmp_path / 'deep' / 'out'
    with mockup.new_folder(there) as folder:
        folder.resource(ROOT, {'a': 'ü'})
        folder.resource(f'{ROOT}/Systems', {})
        folder.file('README.md', 'x')
        assert not there.exists()
        assert ['README.md', 'redfish/v1/Systems/index.json', 'redfish/v1/index.json'] == [str(p) for p, _ in folder.texts()]
    assert {'a': 'ü'} == json.loads((there / 'redfish/v1/index.json').read_text())
    modes = {stat.S_IMODE(p.stat().st_mode) for p in there.rglob('*') if p.is_file()}
    folders = {stat.S_IMODE(p.stat().st_mode) for p in [there, *there.rglob('*')] if p.is_dir()}
    assert ({0o600}, {0o700}) == (modes, folders)


@pytest.mark.parametrize('error', [RuntimeError, KeyboardInterrupt])
def test_a_broken_run_leaves_nothing(tmp_path: Path, error):
    """Neither the folder nor the one that it was to become; an empty folder that was there stays."""
    (tmp_path / 'out').mkdir()
    with pytest.raises(error), mockup.new_folder(tmp_path / 'out') as folder:  # noqa: PT012 - what breaks is the block
        folder.resource(ROOT, {})
        raise error
    assert [tmp_path / 'out'] == list(tmp_path.iterdir())
    assert [] == list((tmp_path / 'out').iterdir())


def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path):
    """Two runs into one folder: the second fails, the first stays."""
    with pytest.raises(OSError, match='not empty'), mockup.new_folder(tmp_path / 'out') as folder:  # noqa: PT012 - as above
        folder.resource(ROOT, {})
        (tmp_path / 'out').mkdir()
        (tmp_path / 'out' / 'mine').write_text('x')
    assert ['mine'] == [p.name for p in (tmp_path / 'out').iterdir()]
    assert 1 == len(list(tmp_path.iterdir()))


def test_two_uris_never_share_a_file(tmp_path: Path):
    """Nor do two that only some systems tell apart."""
    with mockup.new_folder(tmp_path / 'out') as folder:
        folder.resource(f'{ROOT}/Systems/1', {'n': 1})
        folder.resource(f'{ROOT}/systems/1/bios', {'n': 2})
        for other in ('/redfish/v1/systems/1', '/redfish/v1/Systems/%31', '/redfish/v1/Systems/1/'):
            with pytest.raises(mockup.NoPlace, match='case'):
                folder.resource(other, {'n': 3})
    assert {'n': 1} == json.loads((tmp_path / 'out/redfish/v1/Systems/1/index.json').read_text())


def test_a_folder_is_free_when_nothing_is_lost(tmp_path: Path):
    """An empty folder or none; no file, no link, no folder with something in it."""
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'file').write_text('')
    (tmp_path / 'link').symlink_to(tmp_path / 'empty')
    assert [True, True, False, False, False] == [
        mockup.is_free(p) for p in (tmp_path / 'new', tmp_path / 'empty', tmp_path / 'file', tmp_path / 'link', tmp_path)
    ]


def test_text_that_is_no_unicode_is_written_as_json_can(tmp_path: Path):
    """A lone surrogate of a BMC must not stop the recording."""
    with mockup.new_folder(tmp_path / 'out') as folder:
        folder.resource(ROOT, {'a': '\ud800'})
    assert {'a': '\ud800'} == json.loads((tmp_path / 'out/redfish/v1/index.json').read_text())
