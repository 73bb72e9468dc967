# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a stored verdict does not describe the machine any more."""

from collections.abc import Mapping

from baremetal_acc.model.verdict import VerdictEnd


def sentence(end: VerdictEnd) -> str:
    """Say what has happened since the verdict was taken."""
    return _SENTENCES[end]


_SENTENCES: Mapping[VerdictEnd, str] = {
    VerdictEnd.HANDED_OVER: 'the node was handed over since: this is what was found right before',
    VerdictEnd.RETURNED: 'the node has come back since, and nothing that was proven before counts any more',
    VerdictEnd.WRITTEN: 'a job has begun since to write firmware or to change locks, and has not read the cards afterwards',
    VerdictEnd.OPENED: 'locks were opened since, or found open',
    VerdictEnd.EXPOSED: 'somebody else may have written a card since',
    VerdictEnd.ALARM: 'the watch has reported a difference since (see the history of the node)',
    VerdictEnd.CHANGED: 'a later read has found the cards or their locks otherwise, and did not compare them with the rules',
    VerdictEnd.UNREAD: 'a later verification could not read the cards',
}
"""A test asserts that every end is here."""
