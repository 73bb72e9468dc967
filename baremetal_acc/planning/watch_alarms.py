# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Troubles of a watched node, and the alarms that report each of them once, and once more when it is over."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from baremetal_acc.model.codec import stored_as
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning.trouble import TroubleFact, TroubleText


class TroubleKind(StrEnum):
    """Kinds of troubles.

    ``account``: an account may log in to a BMC and no rule expects it. ``setting``: a setting of a BMC or of a card is
    not as a rule demands. ``unproven``: somebody has the node, and nothing records
    how it was handed over. ``opened``: a step of ours has released locks, and they were not engaged since. ``unreadable``:
    nobody can say whether something is wrong. ``host-on``: nobody uses the node, and its host is on although cards are not
    proven closed. ``unloadable``: stored data or settings of the node cannot be read, so the node is not watched.
    """

    LOCK = 'lock'
    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    CARD = 'card'
    CONFIGURATION = 'configuration'
    ACCOUNT = 'account'
    SETTING = 'setting'
    UNPROVEN = 'unproven'
    OPENED = 'opened'
    UNREADABLE = 'unreadable'
    HOST_ON = 'host-on'
    UNLOADABLE = 'unloadable'


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTrouble:
    """One difference from what was handed over.

    :ivar device: None: the trouble concerns the whole node.
    :ivar subject: what of the device differs; with kind and device it identifies the trouble.
    :ivar certain: it was read; otherwise it is reported only if it persists.
    :ivar lock: the place of the lock that is not closed.
    :ivar of: the devices that a lock of a whole machine protects.
    """

    STORED_NAME: ClassVar = 'Trouble'

    kind: TroubleKind
    device: AcceleratorId | None
    subject: str
    fact: TroubleFact = field(metadata=stored_as(TroubleText))
    certain: bool = True
    lock: tuple[str, Ref, str] | None = None
    of: frozenset[AcceleratorId] = frozenset()

    @property
    def key(self) -> tuple[TroubleKind, AcceleratorId | None, str]:
        """Equal for the same trouble in different rounds."""
        return (self.kind, self.device, self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A known trouble, as it is stored.

    :ivar since: when it was first seen.
    :ivar rounds: in how many rounds it was seen.
    :ivar told: whether it was reported.
    """

    trouble: WatchTrouble
    since: datetime
    rounds: int = 1
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRound:
    """The result of a round.

    :ivar alarms: all that are known now.
    :ivar begun: those to report now; ``ended`` those that were reported and are over.
    """

    alarms: tuple[Alarm, ...]
    begun: tuple[Alarm, ...] = ()
    ended: tuple[Alarm, ...] = ()


# ------------------------------------------------------------------------------------------------------- rounds and alarms


def next_round(
    before: Iterable[Alarm], found: Iterable[WatchTrouble], now: datetime, *, patience: int, blind: bool = False
) -> WatchRound:
    """Update the alarms, and return which of them to report.

    :param before: the alarms of the round before.
    :param patience: in how many rounds an uncertain trouble has to be seen before it is reported.
    :param blind: nothing could be read: no alarm is over.
    """
    known = {alarm.trouble.key: alarm for alarm in before}
    alarms = []
    begun = []
    for trouble in found:
        old = known.pop(trouble.key, None)
        alarm = Alarm(trouble=trouble, since=now) if old is None else replace(old, trouble=trouble, rounds=old.rounds + 1)
        if not alarm.told and (trouble.certain or alarm.rounds >= patience):
            alarm = replace(alarm, told=True)
            begun.append(alarm)
        alarms.append(alarm)
    dark = {a.trouble.device for a in alarms if a.trouble.kind is TroubleKind.UNREADABLE}
    kept = [a for a in known.values() if a.trouble.certain and (blind or a.trouble.device in dark or None in dark)]
    ended = [a for a in known.values() if a not in kept and a.told]
    return WatchRound(alarms=(*alarms, *kept), begun=tuple(begun), ended=tuple(ended))


# ---------------------------------------------------------------------------------------------------------------- schedule


def due(node: str, last: datetime, now: datetime, interval: timedelta) -> bool:
    """Whether the node is due for a round: each node has its own moment in every interval, and it has passed since the last.

    :param node: its UUID, which determines the moment: a restarted conductor asks no BMC sooner than the one before.
    """
    seconds = interval.total_seconds()
    share = int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], 'big') / 2**64
    return math.floor(last.timestamp() / seconds - share) < math.floor(now.timestamp() / seconds - share)
