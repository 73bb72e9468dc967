# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What differs between releases of Ironic is found in the installed code; what an older one lacks is made up for."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from ironic.conductor import periodics
from ironic.drivers import base
from ironic.drivers.modules.redfish.firmware import RedfishFirmware

from baremetal_acc_ironic import compat
from baremetal_acc_ironic.firmware import RedfishAccFirmware
from tests.ironic.case import TYPE, IronicCase

CHECKS = 'class C:\n    def provision(self):\n        conductor_steps.validate_user_steps_policy(1, 2)\n'


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        (CHECKS, True),
        (CHECKS.replace('conductor_steps.', 'print("conductor_steps.") or '), False),
        ('# validate_user_steps_policy(context, steps)\n', False),
        ('def (', False),
        (None, False),
    ],
    ids=['called', 'another of that name', 'only named', 'no Python', 'no source'],
)
def test_an_api_checks_steps_if_its_code_calls_the_check(
    source: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read counts as an API that does not: then the conductor checks."""
    folder = tmp_path / 'controllers' / 'v1'
    folder.mkdir(parents=True)
    if source is not None:
        (folder / 'node.py').write_text(source)
    monkeypatch.setattr(compat.resources, 'files', lambda _: tmp_path)
    assert expected is compat.api_checks_steps.__wrapped__()


def test_a_spacing_is_read_when_an_interface_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration is loaded after the decorator has run; 0 is never."""
    monkeypatch.setattr(compat, '_takes_callables', lambda: False)
    seconds = {'often': 0.0, 'never': 5.0}

    class Interface:
        @compat.periodic(lambda: seconds['often'])
        def often(self, manager: Any, context: Any) -> None:
            """Do nothing."""

        @compat.periodic(lambda: seconds['never'])
        def never(self, manager: Any, context: Any) -> None:
            """Do nothing."""

    seconds |= {'often': 0.5, 'never': 0.0}
    interface = Interface()
    compat.resolve_spacings(interface)
    assert (True, 0.5, False) == (interface.often._is_periodic, interface.often._periodic_spacing, interface.never._is_periodic)  # type: ignore[attr-defined]


def test_a_deploy_step_of_an_ironic_that_aborts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its decorator does not know the argument."""
    given: list[Any] = []
    monkeypatch.setattr(base, 'deploy_step', lambda priority, argsinfo=None: given.append((priority, argsinfo)))
    compat.deploy_step(priority=7, abortable=False, argsinfo={})
    assert [(7, {})] == given


class TestPeriodics(IronicCase):
    """Ironic's own node periodics of our firmware interface, next to Ironic's own interface."""

    @pytest.fixture(autouse=True)
    def _patches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def inherited(self) -> set[str]:
        """Names of Ironic's node periodics that a conductor would collect from ours."""
        names = {n for n, _ in inspect.getmembers(RedfishFirmware, lambda m: getattr(m, '_is_periodic', False))}
        assert names
        interface = RedfishAccFirmware()
        assert all(callable(getattr(interface, name)) for name in names)
        return {name for name in names if getattr(getattr(interface, name), '_is_periodic', False)}

    def test_a_node_is_handled_once_in_a_round(self) -> None:
        """By the periodics of one of the two interfaces, whichever the installed Ironic would have handle it."""
        self._monkeypatch.setattr(compat, '_by_exact_class', lambda: False)
        ours = self.inherited()
        assert ours
        self.config(enabled_firmware_interfaces=[TYPE, 'redfish', 'no-firmware'])
        assert set() == self.inherited()
        self._monkeypatch.setattr(compat, '_by_exact_class', lambda: True)
        assert ours == self.inherited()

    def test_the_class_is_found_in_the_wrapper(self) -> None:
        """As an older Ironic and the installed one compare them."""

        def older(**_: Any) -> Any:
            def decorator(func: Any) -> Any:
                def wrapper(self: Any, impl: Any) -> Any:
                    return func if isinstance(impl, self.__class__) else None

                wrapper.__wrapped__ = func  # type: ignore[attr-defined]
                return wrapper

            return decorator

        self._monkeypatch.setattr(periodics, 'node_periodic', older)
        assert not compat._by_exact_class()
