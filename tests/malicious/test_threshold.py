# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Documents that too few keys have signed are refused: a catalogue, and a baseline that has to be signed.

The operator trusts three Ed25519 keys and a CA, and two of them have to sign. The attacker has one of them, and everything that
is on disk.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.malicious.attack import Attack
from tests.malicious.notary import (
    CATALOGUE,
    DAY,
    NOW,
    Authority,
    Leaf,
    Notary,
    by_chain,
    by_key,
    fingerprint,
    notarised,
    public,
    signed,
)
from tests.malicious.workshop import Workshop, asked, pushed, told, unsaid

BASELINE = b'baremetal-acc baseline 1\n'
"""What a signature of a baseline is over, before its bytes."""

SECOND, THIRD, STRANGER = (ed25519.Ed25519PrivateKey.generate() for _ in range(3))

SHARED = ec.generate_private_key(ec.SECP256R1())
"""The key of a CA in between that two CAs have certified."""

Entry = Callable[[Notary, bytes], str]
"""Makes one signature of a file from the statement that is to be signed."""

Strike = Callable[[Notary], object]


def first(n: Notary, statement: bytes) -> str:
    """By the key that the attacker has."""
    return by_key(signed(n.key, statement), fingerprint(n.key))


def by(key: ed25519.Ed25519PrivateKey, over: Callable[[bytes], bytes] = bytes) -> Entry:
    return lambda n, statement: by_key(signed(key, over(statement)), fingerprint(key))


def in_the_name_of_another(n: Notary, statement: bytes) -> str:
    return by_key(signed(n.key, statement), fingerprint(SECOND))


def of_leaf(leaf: Leaf, statement: bytes, *above: Leaf) -> str:
    return by_chain(signed(leaf.key, statement), [one.certificate for one in (leaf, *above)])


def certified(key: ed25519.Ed25519PrivateKey | None = None, name: str = 'Signer') -> Entry:
    """By a certificate of the trusted CA, for that key or for a new one."""
    return lambda n, statement: of_leaf(n.authority.issue(key=key, name=name), statement)


def first_certified(n: Notary, statement: bytes) -> str:
    return of_leaf(n.authority.issue(key=n.key), statement)


def entries(*made: Entry) -> Strike:
    return lambda n: n.put(*(one(n, CATALOGUE + n.catalogue.read_bytes()) for one in made))


def trusting(n: Notary, *authorities: Authority, keys: tuple[ed25519.Ed25519PrivateKey, ...] = ()) -> None:
    blocks = [public(key) for key in keys]
    blocks += [one.certificate.public_bytes(serialization.Encoding.PEM) for one in authorities]
    n.roots.write_bytes(b''.join(blocks))


def by_one_key_below_two_cas(n: Notary) -> None:
    """Two CAs have certified the same signer."""
    other = Authority('Other CA')
    trusting(n, n.authority, other)
    own = ec.generate_private_key(ec.SECP256R1())
    entries(*(lambda _, statement, ca=ca: of_leaf(ca.issue(key=own), statement) for ca in (n.authority, other)))(n)


def by_one_ca_in_between_of_two_cas(n: Notary) -> None:
    """Whoever has the key of a CA in between issues certificates below both."""
    one, other = Authority('One', path_length=1), Authority('Other', path_length=1)
    trusting(n, one, other)

    def below(ca: Authority) -> Entry:
        between = Authority('Between', key=SHARED)
        above = ca.issue(name='Between', ca=True, key=SHARED, purpose=None)
        return lambda _, statement: of_leaf(between.issue(name=f'Signer below {id(ca)}'), statement, above)

    entries(below(one), below(other))(n)


def by_a_ca_that_another_has_certified(n: Notary) -> None:
    """Both are trust roots; the key of the lower one makes a chain up to either."""
    upper, lower = Authority('Upper', path_length=1), Authority('Lower')
    trusting(n, upper, lower)
    cross = upper.issue(name='Lower', ca=True, key=lower.key, purpose=None)

    def twice(_: Notary, statement: bytes) -> str:
        return of_leaf(lower.issue(name='A'), statement) + of_leaf(lower.issue(name='B'), statement, cross)

    entries(twice)(n)


def by_a_ca_that_was_renewed(n: Notary) -> None:
    """Two certificates of one CA are trust roots, with one key."""
    again = Authority(key=n.authority.key, end=2 * DAY)
    trusting(n, n.authority, again, keys=(SECOND,))
    entries(certified(name='A'), lambda _, statement: of_leaf(again.issue(name='B'), statement))(n)


def by_a_key_that_was_removed(n: Notary) -> None:
    """Its signature was good until the operator took it out of the trust roots."""
    entries(first, by(THIRD))(n)
    trusting(n, n.authority, keys=(n.key, SECOND))


def the_second_over_an_older_one(n: Notary) -> None:
    """The other signer has signed the catalogue before this one."""
    older = n.catalogue.read_bytes().replace(b'serial = 7', b'serial = 6')
    entries(first, by(SECOND, lambda _: CATALOGUE + older))(n)


def changed_since(n: Notary) -> None:
    """Both have signed, and the attacker signs what he has changed with the key that he has."""
    entries(first, by(SECOND))(n)
    kept = n.file.read_text().removeprefix('format = 1')
    n.catalogue.write_bytes(n.catalogue.read_bytes() + b'# changed\n')
    n.put(first(n, CATALOGUE + n.catalogue.read_bytes()), kept)


FEW = 'too few trusted keys have signed it: catalogue.toml.sig: '

ONE = (FEW, '1 of 2 required keys has signed', '1 missing', 'catalogue sign catalogue.toml --key FILE --add')

NONE = (FEW, '0 of 2 required keys have signed', '2 missing')

SHORT = {
    'by one key of two': (Attack.FORGED_SIGNATURE, entries(first), (*ONE, 'trusted keys without a valid signature')),
    'by one key twice': (Attack.FORGED_SIGNATURE, entries(first, first), ONE),
    'by one key sixteen times': (Attack.FORGED_SIGNATURE, entries(*[first] * 16), ONE),
    'by one key, and by its certificate': (
        Attack.FORGED_SIGNATURE,
        entries(first, first_certified),
        (*ONE, 'CN=Signer does not count'),
    ),
    'by two certificates of one CA': (
        Attack.FORGED_SIGNATURE,
        entries(certified(name='A'), certified(name='B')),
        (*ONE, 'CN=B does not count: its key or its CA is counted already'),
    ),
    'by one key below two CAs': (Attack.FORGED_SIGNATURE, by_one_key_below_two_cas, ONE),
    'by one CA in between of two CAs': (Attack.FORGED_SIGNATURE, by_one_ca_in_between_of_two_cas, ONE),
    'by a CA that another has certified': (Attack.FORGED_SIGNATURE, by_a_ca_that_another_has_certified, ONE),
    'by a CA that was renewed': (Attack.FORGED_SIGNATURE, by_a_ca_that_was_renewed, ONE),
    'by a key and a stranger': (
        Attack.FORGED_SIGNATURE,
        entries(first, by(STRANGER)),
        (*ONE, 'signature[1] is by key', 'which is not a trust root'),
    ),
    'by a key in its own name and in that of another': (
        Attack.FORGED_SIGNATURE,
        entries(first, in_the_name_of_another),
        (*ONE, 'signature[1] does not match'),
    ),
    'by a key that was removed': (Attack.FORGED_SIGNATURE, by_a_key_that_was_removed, (*ONE, 'which is not a trust root')),
    'by a key, and by another over an older one': (Attack.DOWNGRADE, the_second_over_an_older_one, (*ONE, 'does not match')),
    'by a key, and by another for a baseline': (
        Attack.FORGED_SIGNATURE,
        entries(first, by(SECOND, lambda statement: BASELINE + statement.removeprefix(CATALOGUE))),
        (*ONE, 'does not match'),
    ),
    'by a key and a certificate of yesterday': (
        Attack.EXPIRED,
        entries(first, lambda n, s: of_leaf(n.authority.issue(start=-2 * DAY, end=-timedelta(seconds=1)), s)),
        (*ONE, 'is valid only from'),
    ),
    'by two keys, and changed since': (Attack.FORGED_SIGNATURE, changed_since, (*ONE, 'does not match')),
    'by strangers only': (Attack.FORGED_SIGNATURE, entries(by(STRANGER), by(STRANGER)), NONE),
    'by nobody, where two have to': (Attack.FORGED_SIGNATURE, lambda n: None, ('is not signed: there is no ',)),
}
"""What too few keys have signed: code 4."""


def two_of_four(shop: Workshop, strike: Strike | None = None) -> Notary:
    """The catalogue needs two keys of three, or one and the CA."""
    notary = notarised(shop, sign=False)
    trusting(notary, notary.authority, keys=(notary.key, SECOND, THIRD))
    shop.conf['signature_threshold'] = '2'
    if strike is not None:
        shop.after.append(lambda: strike(notary))
    return notary


def refused(shop: Workshop, code: int, says: tuple[str, ...]) -> None:
    assert [] == unsaid(shop.refused(code), says)
    assert 0 == asked(shop.machine)


@pytest.mark.parametrize('case', SHORT)
def test_a_catalogue_that_too_few_keys_have_signed_is_refused_before_any_bmc_is_asked(case, shop):
    """One line that says how many of how many have signed, and what to do; no BMC has seen so much as a login."""
    _, strike, says = SHORT[case]
    two_of_four(shop, strike)
    refused(shop, 4, says)


# -- what can never be right -----------------------------------------------------------------------------------------------


def demanding(threshold: str) -> Strike:
    """The operator's configuration has another threshold."""

    def strike(n: Notary) -> None:
        path = n.shop.path('acc.conf')
        path.write_text(path.read_text().replace('signature_threshold = 2', f'signature_threshold = {threshold}'))

    return strike


def with_a_threshold_in_the_catalogue(n: Notary) -> None:
    n.catalogue.write_bytes(n.catalogue.read_bytes().replace(b'serial = 7\n', b'serial = 7\nsignature_threshold = 1\n'))
    entries(first, by(SECOND))(n)


def with_a_threshold_in_the_signatures(n: Notary) -> None:
    entries(first)(n)
    n.file.write_text(n.file.read_text().replace('format = 1', 'format = 1\nthreshold = 1'))


def with_a_threshold_of_its_own(n: Notary) -> None:
    n.put(first(n, CATALOGUE + n.catalogue.read_bytes()) + 'threshold = 1\n')


def by_a_key_in_two_spellings(n: Notary) -> None:
    statement = CATALOGUE + n.catalogue.read_bytes()
    n.put(first(n, statement), by_key(signed(n.key, statement), fingerprint(n.key).upper().replace('SHA256', 'sha256')))


def one_key_in_two_files_of_trust_roots(n: Notary) -> None:
    """Once as it is written by openssl, once with other line ends: one key."""
    n.roots.write_bytes(public(n.key) + b'the same again\n' + public(n.key).replace(b'\n', b'\r\n'))
    entries(first, first)(n)


def no_trust_roots(n: Notary) -> None:
    path = n.shop.path('acc.conf')
    path.write_text('\n'.join(line for line in path.read_text().splitlines() if not line.startswith('trust_roots')))


IMPOSSIBLE = {
    'a threshold of 0': (Attack.MALFORMED, demanding('0'), ('signature_threshold: ', 'greater than or equal to 1')),
    'a threshold below 0': (Attack.MALFORMED, demanding('-1'), ('signature_threshold: ', 'greater than or equal to 1')),
    'a threshold above all signatures of a file': (
        Attack.MALFORMED,
        demanding('17'),
        ('signature_threshold: ', 'less than or equal to 16'),
    ),
    'a threshold that is no number': (Attack.MALFORMED, demanding('two'), ('signature_threshold',)),
    'a threshold above the number of keys': (
        Attack.MALFORMED,
        demanding('5'),
        ('signature_threshold', 'requires 5 keys, but option trust_roots names 4 different keys'),
    ),
    'a threshold without trust roots': (Attack.MALFORMED, no_trust_roots, ('requires 2 keys', 'names 0 different keys')),
    'one key in two encodings for two trust roots': (
        Attack.MALFORMED,
        one_key_in_two_files_of_trust_roots,
        ('requires 2 keys, but option trust_roots names 1 different key:',),
    ),
    'a threshold that the catalogue lowers': (
        Attack.DOWNGRADE,
        with_a_threshold_in_the_catalogue,
        ('catalogue.toml', 'signature_threshold: no such key'),
    ),
    'a threshold that the signatures lower': (
        Attack.DOWNGRADE,
        with_a_threshold_in_the_signatures,
        ('catalogue.toml.sig', 'threshold: no such key'),
    ),
    'a threshold that a signature lowers': (
        Attack.DOWNGRADE,
        with_a_threshold_of_its_own,
        ('catalogue.toml.sig', 'threshold: no such key'),
    ),
    'by one key in two spellings': (
        Attack.FORGED_SIGNATURE,
        by_a_key_in_two_spellings,
        ('catalogue.toml.sig', 'is not the SHA-256 of a public key'),
    ),
    'seventeen signatures of which two would do': (
        Attack.OVERSIZED,
        entries(first, by(SECOND), *[by(STRANGER)] * 15),
        ('catalogue.toml.sig', 'more than 16 signatures'),
    ),
    'two signatures and megabytes behind them': (
        Attack.OVERSIZED,
        lambda n: (entries(first, by(SECOND))(n), n.file.write_text(n.file.read_text() + '#' * 3_000_000)),
        ('catalogue.toml.sig', 'longer than'),
    ),
}
"""What no configuration may have, and no document may say: code 2."""


@pytest.mark.parametrize('case', IMPOSSIBLE)
def test_a_threshold_comes_from_a_configuration_that_can_be_met_and_from_nowhere_else(case, shop):
    """One line that names the option or the file; no document can change how many keys it needs."""
    _, strike, says = IMPOSSIBLE[case]
    two_of_four(shop, strike)
    refused(shop, 2, says)


# -- the baseline ----------------------------------------------------------------------------------------------------------


def baseline_signed(*made: Entry, text: Callable[[bytes], bytes] = bytes, after: Strike | None = None) -> Strike:
    """Both have signed the catalogue; the baseline is that of serial 3, and these have signed it.

    :param text: what the baseline is before it is signed.
    :param after: what the attacker does then.
    """

    def strike(n: Notary) -> None:
        entries(first, by(SECOND))(n)
        path = n.shop.path('baseline.toml')
        head = f'format = 1\nserial = 3\nexpires = {NOW + DAY:%Y-%m-%dT%H:%M:%SZ}\n'
        path.write_bytes(text(path.read_bytes().replace(b'format = 1\n', head.encode(), 1)))
        found = [one(n, BASELINE + path.read_bytes()) for one in made]
        if found:
            path.with_name('baseline.toml.sig').write_text('\n'.join(('format = 1', *found)))
        if after is not None:
            after(n)

    return strike


def write_baseline(change: Callable[[bytes], bytes]) -> Strike:
    def strike(n: Notary) -> None:
        path = n.shop.path('baseline.toml')
        path.write_bytes(change(path.read_bytes()))

    return strike


def without(key: bytes) -> Callable[[bytes], bytes]:
    return lambda data: b''.join(line for line in data.splitlines(keepends=True) if not line.startswith(key))


def with_the_signatures_of_the_catalogue(n: Notary) -> None:
    """The same bytes as catalogue would need another statement."""
    path = n.shop.path('baseline.toml')
    statement = CATALOGUE + path.read_bytes()
    path.with_name('baseline.toml.sig').write_text('\n'.join(('format = 1', first(n, statement), by(SECOND)(n, statement))))


def without_rules(data: bytes) -> bytes:
    """Nothing is demanded any more."""
    return data[: data.index(b'[[rule]]')]


BASELINES = {
    'a baseline that nobody has signed': (
        Attack.FORGED_SIGNATURE,
        baseline_signed(),
        4,
        ('is not signed: there is no baseline.toml.sig',),
    ),
    'a baseline that one of two has signed': (
        Attack.FORGED_SIGNATURE,
        baseline_signed(first),
        4,
        ('1 of 2 required keys has signed', 'baseline sign baseline.toml --key FILE --add'),
    ),
    'a baseline whose rules were removed since': (
        Attack.FORGED_SIGNATURE,
        baseline_signed(first, by(SECOND), after=write_baseline(without_rules)),
        4,
        ('baseline.toml.sig: 0 of 2', 'does not match'),
    ),
    'a baseline with a bit flipped since': (
        Attack.BIT_FLIPPED,
        baseline_signed(first, by(SECOND), after=write_baseline(lambda data: data.replace(b'gzip', b'gzhp'))),
        4,
        ('does not match',),
    ),
    'a baseline with signatures that are meant for a catalogue': (
        Attack.FORGED_SIGNATURE,
        baseline_signed(first, by(SECOND), after=with_the_signatures_of_the_catalogue),
        4,
        ('baseline.toml.sig', 'does not match'),
    ),
    'a signed baseline without a serial': (
        Attack.MALFORMED,
        baseline_signed(first, by(SECOND), text=without(b'serial')),
        2,
        ('baseline.toml', 'is signed, but has no serial'),
    ),
    'a signed baseline without an end': (
        Attack.MALFORMED,
        baseline_signed(first, by(SECOND), text=without(b'expires')),
        2,
        ('baseline.toml', 'is signed, but has no expires'),
    ),
    'a baseline with a file of signatures that is none': (
        Attack.MALFORMED,
        baseline_signed(first, after=lambda n: n.shop.path('baseline.toml.sig').write_text('nothing')),
        2,
        ('baseline.toml.sig', 'not valid TOML'),
    ),
    'a baseline with a threshold of its own': (
        Attack.DOWNGRADE,
        baseline_signed(
            first, by(SECOND), text=lambda data: data.replace(b'serial = 3\n', b'serial = 3\nsignature_threshold = 1\n')
        ),
        2,
        ('baseline.toml', 'signature_threshold: no such key'),
    ),
}
"""Baselines that have to be signed, and are not as they have to be."""


@pytest.mark.parametrize('case', BASELINES)
def test_a_baseline_that_is_not_signed_as_required_is_refused_before_any_bmc_is_asked(case, shop):
    """Else whoever can write the file decides what is flashed, and what is locked."""
    _, strike, code, says = BASELINES[case]
    shop.conf['baseline_signature'] = 'required'
    two_of_four(shop, strike)
    refused(shop, code, says)


def test_a_signature_of_the_baseline_that_is_there_is_checked_also_where_none_is_required(shop):
    """A wrong one is never ignored."""
    two_of_four(shop, baseline_signed(first))
    refused(shop, 4, ('baseline.toml.sig', '1 of 2 required keys has signed'))


@pytest.mark.parametrize('verb', ['plan', 'verify', 'lock'])
def test_every_verb_refuses_the_baseline_that_apply_refuses(verb, shop):
    """A lock is not engaged by the rules of somebody else."""
    shop.conf['baseline_signature'] = 'required'
    two_of_four(shop, baseline_signed(first))
    shop.lay()
    done = shop.run(verb, *shop.options)
    assert (4, True) == (done.code, '1 of 2 required keys has signed' in done.err), done.err


def test_an_older_baseline_does_not_come_back(shop):
    """Its signatures are good, and its serial is lower than one that was seen."""
    shop.conf['baseline_signature'] = 'required'
    notary = two_of_four(shop, baseline_signed(first, by(SECOND)))
    shop.lay()
    assert 3 == shop.run('plan', *shop.options).code
    shop.machine.reset_log()
    older = baseline_signed(first, by(SECOND), text=lambda data: data.replace(b'serial = 3', b'serial = 2'))
    shop.after[-1] = lambda: older(notary)
    refused(shop, 4, ('baseline.toml', 'has serial 2, but was seen before with serial 3'))


def test_no_image_is_written_by_an_expired_baseline(shop):
    """As by an expired catalogue: what needs no image still works."""
    shop.conf['baseline_signature'] = 'required'
    past = f'expires = {NOW - DAY:%Y-%m-%dT%H:%M:%SZ}'.encode()
    future = f'expires = {NOW + DAY:%Y-%m-%dT%H:%M:%SZ}'.encode()
    two_of_four(shop, baseline_signed(first, by(SECOND), text=lambda data: data.replace(future, past)))
    assert [] == unsaid(shop.refused(4), ('image fpga-new', 'baseline.toml expired at'))


# -- and the honest ones ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'strike',
    [
        entries(first, by(SECOND)),
        entries(by(STRANGER), by(THIRD), first, first),
        entries(first_certified, certified(name='Release')),
        baseline_signed(by(SECOND), by(THIRD)),
    ],
    ids=['two keys', 'two keys among others', 'a certified key and a certificate', 'the baseline too'],
)
def test_what_enough_keys_have_signed_is_written_byte_for_byte(strike, honest):
    """Else the tests above could not fail."""
    two_of_four(honest, strike)
    honest.lay()
    done = honest.apply()
    assert 0 == done.code, done.err
    assert sorted((told(honest.new_file), told(honest.path('gzip-3.img')))) == sorted(pushed(honest.machine))
