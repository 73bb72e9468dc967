# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One process of :mod:`tests.exploration.soak`: plays what it is given until its time is over, and notes what is done.

It runs under pytest, since Ironic's test classes bring up the database and the conductor.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

from ironic.tests import base

from tests.exploration.edges import EdgePlayer

GIVEN = 'BAREMETAL_ACC_EXPLORATION'
"""Environment variable: JSON with ``items``, ``seconds`` and ``file``."""

LAST = 600
"""Seconds that the last thing may take which was begun in time."""

# All that a process plays is one test of Ironic's, which it would end after some minutes.
base.BASE_TEST_TIMEOUT = int(json.loads(os.environ[GIVEN])['seconds']) + LAST if GIVEN in os.environ else LAST


class Worker(EdgePlayer):
    """Plays items."""

    def test_what_was_given(self) -> None:
        """Violations are noted, not raised: the soak tells them all."""
        given = json.loads(os.environ[GIVEN])
        end = time.monotonic() + given['seconds']
        for item in given['items']:
            if time.monotonic() > end:
                return
            began, wrong, found = time.monotonic(), None, None
            kind, _, what = item.partition(':')
            try:
                if kind == 'pairs':
                    self.pairs(*what.split('/'))
                elif kind == 'edges':
                    self._reached = None
                    found = self.expand(what)
                else:
                    self._reached = None  # the next pair begins on a node of its own
                    self.play(int(what))
            except AssertionError as exc:
                wrong = str(exc)
            except Exception as exc:  # noqa: BLE001  told like a violation, and the next item is played
                story = '\n'.join(getattr(self, 'story', ()))
                wrong = f'the world fails: {type(exc).__name__}: {exc}\n{story}'
            figures = getattr(self, 'figures', Counter())
            took = round(time.monotonic() - began, 2)
            line = {'item': item, 'seconds': took, 'wrong': wrong, 'figures': dict(figures), 'found': found}
            with Path(given['file']).open('a') as stream:
                stream.write(json.dumps(line) + '\n')
