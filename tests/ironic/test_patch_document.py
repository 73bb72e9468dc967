# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our parser of JSON patches and nodes agrees with the library by which Ironic applies them."""

import copy
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st
from ironic.api.controllers.v1 import utils as api_utils

from baremetal_acc_ironic.authorization.patch_document import (
    DEPLOY_INTERFACE,
    InterfaceOverride,
    UnknownContent,
    find_overrides,
)

KEYS = frozenset({'firmware_interface', 'power_interface', DEPLOY_INTERFACE})
CHOOSABLE = ('ramdisk',)

TOKENS = ('instance_info', 'extra', 'x', '', 'a/b', '~1', 'image_source', 'firmware~interface', '-', '0', *sorted(KEYS))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from(['no-firmware', 'ramdisk', 'x', "{'power_interface': 'x'}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TOKENS), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(TOKENS), VALUES, max_size=4)
NODES = st.fixed_dictionaries({'instance_info': OBJECTS, 'extra': OBJECTS, 'driver': st.just('redfish-acc')})


def escape(token: str) -> str:
    """A reference token as RFC 6901 writes it."""
    return token.replace('~', '~0').replace('/', '~1')


POINTERS = st.lists(st.sampled_from(TOKENS), max_size=4).map(lambda tokens: ''.join(f'/{escape(token)}' for token in tokens))
NEAR = st.sampled_from([
    '', '/instance_info', '/extra', '/extra/x', '/extra/firmware_interface', *(f'/instance_info/{key}' for key in sorted(KEYS)),
    '/instance_info/firmware_interface/x', '/instance_info/x', '/instance_info/firmware~0interface',
])  # fmt: skip
PLACES = NEAR | POINTERS
OPERATIONS = st.fixed_dictionaries(
    {'op': st.sampled_from(['add', 'replace', 'remove', 'test', 'copy', 'move']), 'path': PLACES},
    optional={'value': VALUES | NODES, 'from': PLACES},
)


def overridden(node: Any) -> dict[str, Any]:
    """What Ironic would believe of a node's instance_info; anything but an object is taken for an override of its own."""
    info = node.get('instance_info') if isinstance(node, dict) else None
    if isinstance(info, dict):
        return {key: value for key, value in info.items() if key in KEYS}
    return {} if info is None else {'instance_info': info}


def applied(node: Any, patch: list[Any]) -> Any:
    """What the library makes of it; None if it refuses."""
    try:
        return jsonpatch.apply_patch(copy.deepcopy(node), copy.deepcopy(patch))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError):
        return None


class TestAgainstTheLibrary:
    """Whatever comes of a patch, an override that was not there before does not come of one that was let through."""

    @settings(max_examples=600, deadline=None)
    @given(NODES, st.lists(OPERATIONS, min_size=1, max_size=4))
    def test_a_patch_that_changes_an_override_is_found(self, node: Any, patch: list[Any]) -> None:
        """All six operations, at any pointer, with any value, on any node."""
        before, after = overridden(node), overridden(applied(node, patch))
        new = {key for key, value in after.items() if key not in before or before[key] != value}
        chosen = {DEPLOY_INTERFACE} if after.get(DEPLOY_INTERFACE) in CHOOSABLE else set()
        if new - chosen:
            assert find_overrides(patch, interfaces=KEYS, choosable=CHOOSABLE)

    @settings(max_examples=150, deadline=None)
    @given(OBJECTS)
    def test_a_node_with_an_override_is_found(self, info: dict[str, Any]) -> None:
        """As the body of POST, and exactly the keys that are in it."""
        found = find_overrides({'driver': 'redfish-acc', 'instance_info': info}, interfaces=KEYS)
        assert {InterfaceOverride(key=key) for key in KEYS & info.keys()} == set(found)

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    'op': st.sampled_from(['add', 'replace', 'remove', 'test', 'copy', 'move']),
                    'path': st.sampled_from(
                        ['/instance_info/image_source', '/instance_info/x/power_interface', '/extra/power_interface']
                    ),
                    'value': VALUES,
                    'from': PLACES,
                }
            )
        )
    )
    def test_nothing_is_found_elsewhere(self, patch: list[Any]) -> None:
        """Other keys, and keys of that name in another place, are nobody's business here."""
        assert () == find_overrides(patch, interfaces=KEYS)


class TestCases:
    """The kinds, one by one; each is what Ironic's own function makes of it."""

    def test_each_way_to_write_is_found(self) -> None:
        """Written directly, in a whole object, copied, moved, below a key, and over the whole node."""
        node = {'instance_info': {}, 'extra': {'x': 'no-firmware', 'o': {'firmware_interface': 'no-firmware'}}}
        key, all_of_it = InterfaceOverride(key='firmware_interface'), UnknownContent()
        for operation, expected in (
            ({'op': 'add', 'path': '/instance_info/firmware_interface', 'value': 'no-firmware'}, key),
            ({'op': 'add', 'path': '/instance_info', 'value': {'firmware_interface': 'no-firmware'}}, key),
            ({'op': 'replace', 'path': '/instance_info', 'value': {'firmware_interface': 'no-firmware'}}, key),
            ({'op': 'copy', 'from': '/extra/x', 'path': '/instance_info/firmware_interface'}, key),
            ({'op': 'move', 'from': '/extra/x', 'path': '/instance_info/firmware_interface'}, key),
            ({'op': 'copy', 'from': '/extra/o', 'path': '/instance_info'}, all_of_it),
            ({'op': 'move', 'from': '/extra/o', 'path': '/instance_info'}, all_of_it),
            ({'op': 'replace', 'path': '', 'value': {'instance_info': {'firmware_interface': 'no-firmware'}}}, key),
        ):
            result = api_utils.apply_jsonpatch(copy.deepcopy(node), [operation])
            assert 'no-firmware' == result['instance_info']['firmware_interface'], operation
            assert (expected,) == find_overrides([operation], interfaces=KEYS, choosable=CHOOSABLE), operation

    def test_an_interface_may_be_taken_out_by_everybody(self) -> None:
        """The key, or all of it; but nothing below a key, which leaves another value."""
        for path in ('/instance_info/firmware_interface', '/instance_info'):
            assert () == find_overrides([{'op': 'remove', 'path': path}], interfaces=KEYS)
        below = [{'op': 'remove', 'path': '/instance_info/firmware_interface/x'}]
        assert (InterfaceOverride(key='firmware_interface'),) == find_overrides(below, interfaces=KEYS)

    def test_an_empty_value_is_one(self) -> None:
        """Ironic takes a key that is there, whatever it holds."""
        patch = [{'op': 'add', 'path': '/instance_info/power_interface', 'value': None}]
        assert (InterfaceOverride(key='power_interface'),) == find_overrides(patch, interfaces=KEYS)

    def test_a_deploy_interface_may_be_chosen_of_those_that_are_named(self) -> None:
        """By its exact name, and none of the other interfaces by it."""
        for key, value, refused in (
            (DEPLOY_INTERFACE, 'ramdisk', False),
            (DEPLOY_INTERFACE, 'Ramdisk', True),
            (DEPLOY_INTERFACE, ['ramdisk'], True),
            (DEPLOY_INTERFACE, 'direct', True),
            ('power_interface', 'ramdisk', True),
        ):
            expected = (InterfaceOverride(key=key),) if refused else ()
            for document in (
                [{'op': 'add', 'path': f'/instance_info/{key}', 'value': value}],
                [{'op': 'replace', 'path': '/instance_info', 'value': {key: value}}],
                {'instance_info': {key: value}},
            ):
                assert expected == find_overrides(document, interfaces=KEYS, choosable=CHOOSABLE), document
        copied = [{'op': 'copy', 'from': '/extra/x', 'path': f'/instance_info/{DEPLOY_INTERFACE}'}]
        for one in copied[0], copied[0] | {'value': 'ramdisk'}, copied[0] | {'op': 'move', 'value': 'ramdisk'}:
            # The library does not look at the value of a copy.
            assert (InterfaceOverride(key=DEPLOY_INTERFACE),) == find_overrides([one], interfaces=KEYS, choosable=CHOOSABLE)

    def test_a_pointer_is_decoded(self) -> None:
        """As the library does; first the slash, then the tilde."""
        for pointer, key in (('/instance_info/a~1b', 'a/b'), ('/instance_info/a~0b', 'a~b'), ('/instance_info/a~01b', 'a~1b')):
            patch = [{'op': 'add', 'path': pointer, 'value': 'x'}]
            assert {key: 'x'} == applied({'instance_info': {}}, patch)['instance_info']
            assert (InterfaceOverride(key=key),) == find_overrides(patch, interfaces={'a/b', 'a~b', 'a~1b'})

    def test_a_text_for_all_of_it_is_found(self) -> None:
        """Ironic's field would read a dictionary from it, if its schema did not refuse it first."""
        text = "{'power_interface': 'fake'}"
        assert (UnknownContent(),) == find_overrides({'instance_info': text}, interfaces=KEYS)
        assert (UnknownContent(),) == find_overrides([{'op': 'add', 'path': '/instance_info', 'value': text}], interfaces=KEYS)

    def test_what_is_no_patch_says_nothing(self) -> None:
        """Ironic refuses it by its schema."""
        for document in (
            None,
            'x',
            7,
            [None, 7, {'op': 'add'}, {'path': '/instance_info/power_interface'}, {'op': 1, 'path': 2}],
        ):
            assert () == find_overrides(document, interfaces=KEYS)
