# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Verify the hand-over certificate of the demo by the command line, with nothing but the key of its issuer."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from baremetal_acc.demo import documents
from baremetal_acc.demo.api import Json
from baremetal_acc.demo.node import CONTAINER, GPUS, HOST_DEVICE
from baremetal_acc.demo.screen import Screen


def _acc(*arguments: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line ``baremetal-acc``, as an operator does."""
    command = [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments]
    return subprocess.run(command, input=told or '', capture_output=True, text=True, check=False)


def check_certificate(screen: Screen, node: Json, folder: Path) -> None:
    """Verify the signed hand-over certificate by the command line, with nothing but the issuer's key."""
    kept = node['driver_internal_info'][CONTAINER]['certificate']
    file, trust = folder / 'certificate.json', documents.write_trust(folder)
    _acc('certificate', 'extract', '-', '--out', str(file), told=json.dumps(node))
    asked = ('--node', node['uuid'], '--lifecycle', str(kept['lifecycle']), '--deployment', kept['deployment'])
    judged = _acc('certificate', 'verify', str(file), '--config-file', str(trust), *asked, '-f', 'json')
    document = json.loads(judged.stdout)
    screen.say(f'The hand-over certificate {file} proves:')
    for sentence in document['proves']:
        screen.detail(sentence)
    screen.say('It does not prove:')
    for sentence in document['does_not_prove']:
        screen.detail(sentence)
    screen.expect(
        'the certificate is valid for this node, this lifecycle and this deployment',
        (0, []),
        (judged.returncode, document['reasons']),
    )
    envelope = json.loads(file.read_text())
    statement = base64.b64decode(envelope['payload'])
    certificate = json.loads(statement)['predicate']
    claims_more = base64.b64encode(statement.replace(b'"unsupported"', b'"locked-verified"')).decode()
    file.write_text(file.read_text().replace(envelope['payload'], claims_more))
    forged = _acc('certificate', 'verify', str(file), '--config-file', str(trust), *asked, '-f', 'json')
    screen.expect('a forged certificate, which claims more, is refused', 3, forged.returncode)
    show_paths(screen, certificate['accelerators'])
    show_chain(screen, certificate['accelerators'], certificate['looked'])


def show_paths(screen: Screen, cards: Iterable[Json]) -> None:
    """Show the certificate's state of each write path of each card, demanded or not."""
    cards = list(cards)
    names = [path['path'] for path in cards[0]['paths']]
    rows = [(card['label'], *(path['state'] for path in card['paths'])) for card in cards]
    screen.say('State of each write path in the certificate:')
    screen.table(('card', *names), rows)
    demanded = {(path['path'], path['state']) for card in cards for path in card['paths'] if path['demanded']}
    proven = {(HOST_DEVICE, 'locked-verified')}
    screen.expect(
        f'the certificate proves that {HOST_DEVICE}, which the baseline names, is blocked on every card', proven, demanded
    )


def show_chain(screen: Screen, cards: Iterable[Json], looked: str) -> None:
    """Show one card's chain of custody in the certificate: from the write to the reading before the hand-over."""
    card = next(c for c in cards if c['label'].endswith(GPUS[0]))
    chain = card['custody']
    screen.say(f'Chain of custody of {card["label"]}, from the write of image {", ".join(chain["by"])} to the hand-over:')
    screen.table(
        ('from', 'to', 'protected by', 'evidence'),
        [(i['since'][:19], i['until'][:19], i['cover'], i['strength']) for i in chain['intervals']],
    )
    found = (chain['origin'], chain['by'], chain['broken'])
    screen.expect('the chain begins with a write by the operator, and is not broken', ('written', ['gpu-new'], None), found)
    ends = [i['until'] for i in chain['intervals']]
    screen.expect('the chain has no gap', [chain['begun'], *ends], [*(i['since'] for i in chain['intervals']), ends[-1]])
    screen.expect('the chain ends with the inspection that the certificate is based on', looked, chain['reaches'])
