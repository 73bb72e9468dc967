# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A certificate that is kept is there as a whole, for nobody to replace, and stays when it is over."""

import os
import stat
from dataclasses import replace

import pytest

from baremetal_acc.certificates import envelope
from baremetal_acc.certificates import folder as f
from baremetal_acc.errors import StateError
from tests.unit.certificates.values import certificate, sealer

WHOLE = certificate()
ONE = WHOLE.reference
DATA = envelope.seal(WHOLE, sealer())
UUID = str(ONE.node.uuid)


@pytest.fixture
def folder(tmp_path):
    return f.CertificateFolder(root=tmp_path / 'certificates')


def again(lifecycle, deployment, **node):
    other = replace(WHOLE, lifecycle=lifecycle, deployment=deployment, node=replace(ONE.node, **node))
    return other.reference, envelope.seal(other, sealer())


def test_it_is_kept_by_node_life_and_deployment_and_by_name(folder):
    """For the owner and his group; the name leads to the current one."""
    path = folder.put(ONE, DATA)
    assert folder.root / UUID / '8-d-1.json' == path
    assert DATA + b'\n' == path.read_bytes() == (folder.root / 'by-name' / 'node-1.json').read_bytes()
    assert 0o640 == stat.S_IMODE(path.stat().st_mode)
    assert 0 == stat.S_IMODE(path.parent.stat().st_mode) & 0o007
    assert DATA + b'\n' == folder.get(ONE)
    assert [path] == list(path.parent.iterdir())


def test_the_next_one_leaves_the_one_before(folder):
    """Whatever becomes of the counter of lives."""
    folder.put(ONE, DATA)
    other, data = again(8, 'd-2')
    folder.put(other, data)
    assert (DATA + b'\n', data + b'\n') == (folder.get(ONE), folder.get(other))
    # Also where nobody has put it away, since whoever was to remember it was killed: one is current.
    assert ['8-d-2.json'] == [path.name for path in folder.path(other).parent.glob('*.json')]
    assert ['8-d-1.json'] == [path.name for path in folder.path(other).parent.glob('superseded/*')]
    assert data + b'\n' == (folder.root / 'by-name' / 'node-1.json').read_bytes()


def test_what_is_put_away_stays_and_is_current_no_more(folder):
    """Twice does no harm; the link of a later one is left alone."""
    path = folder.put(ONE, DATA)
    folder.put_away(ONE)
    folder.put_away(ONE)
    assert not path.exists()
    assert DATA + b'\n' == folder.get(ONE)
    assert [] == list((folder.root / 'by-name').iterdir())
    other, data = again(10, 'd-2')
    folder.put(other, data)
    folder.put_away(ONE)
    assert data + b'\n' == (folder.root / 'by-name' / 'node-1.json').read_bytes()


def test_no_more_than_a_bound_of_old_ones_stay(folder, monkeypatch):
    """The oldest go first."""
    monkeypatch.setattr(f, 'KEPT', 2)
    kept = [again(2 * n, f'd-{n}') for n in range(4)]
    for n, (one, data) in enumerate(kept):
        os.utime(folder.put(one, data), ns=(n, n))
        folder.put_away(one)
    assert {'4-d-2.json', '6-d-3.json'} == {p.name for p in (folder.root / UUID / 'superseded').iterdir()}


@pytest.mark.parametrize('name', ['../../x', '/etc/x', '.hidden', 'a/b', '', 'a' * 300, 'by-name', 'superseded', 'a\0b'])
def test_no_name_leads_out_of_it(folder, name):
    """A node that has no UUID goes by its name; the link is left out where the name is no file's."""
    odd, data = again(1, 'd-1', uuid=None, name=name)
    with pytest.raises(StateError, match='cannot be used in a file name'):
        folder.put(odd, data)
    with pytest.raises(StateError, match='cannot be used in a file name'):
        folder.put(*again(1, '../x'))
    assert not folder.root.exists()


def test_an_odd_name_of_a_node_with_a_uuid_has_no_link(folder):
    """The file is there all the same."""
    odd, data = again(1, 'd-1', name='../../x')
    assert folder.root / UUID / '1-d-1.json' == folder.put(odd, data)
    assert not (folder.root / 'by-name').exists()
    folder.put_away(odd)


def test_what_cannot_be_kept_is_told(folder, tmp_path, monkeypatch):
    """With what to do; nothing half is left."""
    folder.root.write_bytes(b'')
    with pytest.raises(StateError, match=r'cannot be stored or read.*certificate_folder'):
        folder.put(ONE, DATA)
    folder.root.unlink()

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(f.os, 'fsync', full)
    with pytest.raises(StateError, match='No space left on device'):
        folder.put(ONE, DATA)
    assert [] == list((folder.root / UUID).iterdir())


def test_what_is_read_back_has_to_be_what_was_written(folder, monkeypatch):
    """A disk that lies is found out before anybody relies on it."""
    monkeypatch.setattr(f.CertificateFolder, '_read', lambda self, path: DATA[:-1])
    with pytest.raises(StateError, match='differs from what was written'):
        folder.put(ONE, DATA)


def test_a_folder_that_others_may_write_keeps_nothing(folder):
    """Who may write there could take certificates away."""
    folder.root.mkdir()
    folder.root.chmod(0o777)
    with pytest.raises(StateError, match='other users can write to it'):
        folder.put(ONE, DATA)


def test_a_link_in_place_of_the_file_is_not_followed(folder, tmp_path):
    """Neither when it is read nor when it is written."""
    path = folder.put(ONE, DATA)
    (tmp_path / 'elsewhere').write_bytes(b'other')
    path.unlink()
    path.symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(StateError):
        folder.get(ONE)
    folder.put(ONE, DATA)
    assert b'other' == (tmp_path / 'elsewhere').read_bytes()
    assert not path.is_symlink()
