# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every release note can be read by reno, which checks them too, but only where git's history is."""

import re
from pathlib import Path

import pytest
import yaml

NOTES = sorted((Path(__file__).parents[2] / 'releasenotes' / 'notes').iterdir())
SECTIONS = {'features', 'issues', 'upgrade', 'deprecations', 'critical', 'security', 'fixes', 'other'}


def test_there_are_notes_and_no_two_share_a_number() -> None:
    """reno knows a note by the 16 digits at the end of its name, through all renames."""
    numbers = [path.stem[-16:] for path in NOTES]
    assert numbers
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize('path', NOTES, ids=lambda path: path.name)
def test_a_note_has_the_form_that_reno_reads(path: Path) -> None:
    """Words and 16 hexadecimal digits in the name; known sections; a list of texts in each, and one text as prelude."""
    assert re.fullmatch(r'[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{16}\.yaml', path.name)
    note = yaml.safe_load(path.read_text())
    assert isinstance(note.pop('prelude', ''), str)
    assert set(note) <= SECTIONS
    for section, entries in note.items():
        assert isinstance(entries, list), section
        assert all(isinstance(entry, str) and entry.strip() for entry in entries), section
