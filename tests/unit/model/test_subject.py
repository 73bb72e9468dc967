# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Subjects keep their kind and name through their text form, which stored verdicts of every release hold."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.finding import CardMissing, FindingText
from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.subject import _FORMS, PRESENT, Subject, SubjectKind, lock_mechanism, lock_path
from baremetal_acc.model.verdict import Finding, Met

STORED = [
    ('present', SubjectKind.PRESENT, ''),
    ('rule by place', SubjectKind.RULE, 'by place'),
    ('firmware GPU 0', SubjectKind.FIRMWARE, 'GPU 0'),
    ('firmware of the device', SubjectKind.FIRMWARE, 'of the device'),
    ('revocation r', SubjectKind.REVOCATION, 'r'),
    ('function Slot0', SubjectKind.FUNCTION, 'Slot0'),
    ('function', SubjectKind.ANY_FUNCTION, ''),
    ('lock host-device', SubjectKind.LOCK_PATH, 'host-device'),
    ('lock rot', SubjectKind.LOCK_MECHANISM, 'rot'),
    ('lock', SubjectKind.RELOCK, ''),
    ('users of BMC host', SubjectKind.BMC_USERS, 'host'),
    ('measurement', SubjectKind.MEASUREMENTS, ''),
    ('measurement ROT_0', SubjectKind.MEASUREMENT, 'ROT_0'),
    ('custody', SubjectKind.CUSTODY, ''),
    ('quarantine', SubjectKind.QUARANTINE, ''),
    ('job', SubjectKind.JOB, ''),
    ('what a later release says', SubjectKind.OTHER, 'what a later release says'),
    ('firmwares', SubjectKind.OTHER, 'firmwares'),
    ('', SubjectKind.OTHER, ''),
]


@pytest.mark.parametrize(('text', 'kind', 'name'), STORED)
def test_a_text_form_is_read_as_kind_and_name_and_written_again(text: str, kind: SubjectKind, name: str):
    """Both ways; the name may hold blanks."""
    assert Subject(kind=kind, name=name) == Subject.from_text(text)
    assert text == str(Subject.from_text(text))


def test_each_kind_has_a_text_form():
    """The table is total."""
    assert set(SubjectKind) == set(_FORMS)


def test_a_write_path_and_a_mechanism_are_told_apart_though_they_are_written_alike():
    """No mechanism is called like a path."""
    assert [lock_path(path) for path in WritePath] == [Subject.from_text(f'lock {path}') for path in WritePath]
    assert lock_mechanism('host_interface') == Subject.from_text('lock host_interface')


def test_a_stored_finding_has_its_subject_as_text():
    """As every release has written it."""
    found = Finding(
        accelerator=None,
        label='node',
        subject=Subject.from_text('firmware a b'),
        fact=FindingText(expected='1', found='2'),
        met=Met.NO,
        rule='r',
    )
    assert 'firmware a b' == encode(found)['subject']
    assert found == decode(Finding, encode(found))


def test_a_fact_is_stored_in_words_alone():
    """In place of it stand what was expected and what was found, as every release has stored them."""
    fact = FindingText(expected='1', found='2')
    found = Finding(accelerator=None, label='node', subject=PRESENT, fact=fact, met=Met.NO, rule='r')
    stored = encode(found)
    assert ['accelerator', 'label', 'subject', 'expected', 'found', 'met', 'rule', 'state'] == list(stored)[1:]
    assert ('1', '2') == (stored['expected'], stored['found'])
    with pytest.raises(TypeError, match='CardMissing was not put into words'):
        encode(replace(found, fact=CardMissing()))
    for damaged in ({**stored, 'fact': '1'}, {k: v for k, v in stored.items() if k != 'found'}, {**stored, 'found': 2}):
        with pytest.raises(StaleJob):
            decode(Finding, damaged)
