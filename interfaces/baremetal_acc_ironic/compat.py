# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every difference between the supported Ironic releases: 32 (2025.2), 35 (2026.1) and 39 (2026.2).

Each difference is found in the code of the installed Ironic, not by its version number: stable releases and distributions
backport some of them. Where a capability cannot be found, it counts as missing.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, TypeVar

from ironic.conductor import periodics
from ironic.drivers import base
from ironic.drivers.modules import fake, noop

Method = TypeVar('Method', bound=Callable[..., Any])

_CHECK = 'validate_user_steps_policy'
"""Ironic's function that checks the policy rules of the steps that a request names. Source: ironic 39.0.0,
conductor/steps.py."""

_SPACING = '_baremetal_acc_spacing'

NO_DEPLOY: Any = getattr(noop, 'NoDeploy', fake.FakeDeploy)
"""Deploy interface that images nothing: ``noop``, and before Ironic 35 ``fake``."""

NO_DEPLOY_NAME = 'noop' if hasattr(noop, 'NoDeploy') else 'fake'
"""The name of its entry point."""


# ------------------------------------------------------------------------------------------------------------------ policy


@functools.cache
def api_checks_steps() -> bool:
    """Whether the installed Ironic's API checks the policy rule of each step that a request names.

    The API's own code has to call the check. Ironic has it since 39.0.0. The source is read, since an import would load the
    whole API into the conductor; a source that cannot be read counts as one without the check.
    """
    try:
        source = (resources.files('ironic.api') / 'controllers' / 'v1' / 'node.py').read_text(encoding='utf-8')
        calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except (OSError, ValueError, SyntaxError):
        return False
    return any(isinstance(func, ast.Attribute) and func.attr == _CHECK for func in calls)


# ---------------------------------------------------------------------------------------------------------------- settings


def names(group: Mapping[str, Any], option: str) -> frozenset[str] | None:
    """Return the value of an option that is a list of names; None if the installed Ironic has no such option."""
    return frozenset(group[option] or ()) if option in group else None


# -------------------------------------------------------------------------------------------------------------- decorators


def deploy_step(*, priority: int, abortable: bool, argsinfo: Any) -> Callable[[Method], Method]:
    """Mark a deploy step. Before Ironic 35 no deploy step can be aborted, and the decorator does not know the argument."""
    known = inspect.signature(base.deploy_step).parameters
    given = {'abortable': abortable} if 'abortable' in known else {}
    found: Callable[[Method], Method] = base.deploy_step(priority=priority, argsinfo=argsinfo, **given)
    return found


def periodic(spacing: Callable[[], float]) -> Callable[[Method], Method]:
    """Mark a periodic task whose spacing, in seconds, is read once the configuration is loaded.

    Before Ironic 38 the decorator takes numbers only: there :func:`resolve_spacings` sets the spacing.
    """
    if _takes_callables():
        found: Callable[[Method], Method] = periodics.periodic(spacing=spacing)
        return found

    def marked(method: Method) -> Method:
        made: Method = periodics.periodic(spacing=1)(method)
        setattr(made, _SPACING, spacing)
        return made

    return marked


def resolve_spacings(interface: Any) -> None:
    """Set the spacings of the periodic tasks of an interface where Ironic does not do it itself; 0 disables a task.

    Call it when the interface is loaded: Ironic collects the tasks afterwards.
    """
    for _, method in inspect.getmembers(type(interface), lambda member: hasattr(member, _SPACING)):
        seconds = getattr(method, _SPACING)()
        method._periodic_spacing = seconds
        method._is_periodic = seconds > 0


def _takes_callables() -> bool:
    return hasattr(periodics, 'refresh_periodic_attributes')


def leave_periodics_to(interface: Any, parent: type) -> None:
    """Disable the node periodics that an interface inherits, where those of its parent's interface handle its nodes as well.

    Call it where the parent's interface is enabled, too. Before Ironic 35.1 a node periodic takes the nodes of subclasses: each
    node would be handled twice in a round, and steps of its flow could be skipped.
    """
    if _by_exact_class():
        return
    for name, method in inspect.getmembers(parent, lambda member: getattr(member, '_is_periodic', False)):
        if getattr(type(interface), name) is method:
            setattr(interface, name, functools.partial(inspect.unwrap(method), interface))


def _by_exact_class() -> bool:
    """Whether a node periodic takes the nodes of its own interface class only, not those of subclasses."""

    @periodics.node_periodic(purpose='', spacing=1)
    def probe() -> None:
        """Do nothing: only the wrappers around it are read."""

    wrapper: Any = probe
    while hasattr(wrapper, '__wrapped__'):
        if 'type' in wrapper.__code__.co_names:
            return True
        wrapper = wrapper.__wrapped__
    return False
