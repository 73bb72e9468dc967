# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse requests to Ironic's API that Ironic's own policy would allow to too many users: a pecan hook.

``[api] middleware`` wraps Ironic's application outside of keystonemiddleware, where neither the user nor the controller of a
request is known yet (ironic 39.0.0, api/app.py, setup_app). So the guard is a hook of the pecan application inside: it runs
after routing and after ``ContextHook``, before the controller, on the very request object that the controller decodes.

For every node, whatever its type, since that may change, the guard checks keys of ``instance_info`` by which Ironic would run
other code than the node's own fields name. For nodes of our hardware types it also checks host starts, adoption, virtual media
and vendor passthru.

The node's own ``<x>_interface`` fields and ``driver`` are left to the rule ``baremetal:node:update:driver_interfaces``: by
default only administrators, managers and services of the owner may write them, not its members, and the lessee never.
"""

import inspect
from collections.abc import Iterator
from typing import Any, assert_never

from ironic.api import method
from ironic.api.controllers.v1 import utils as api_utils
from ironic.common import exception, states
from oslo_log import log
from pecan import Pecan, hooks

from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.authorization import api_routes, interface_overrides, policy, requester
from baremetal_acc_ironic.authorization.api_routes import RouteCheck
from baremetal_acc_ironic.authorization.patch_document import (
    DEPLOY_INTERFACE,
    Finding,
    InterfaceOverride,
    UnknownContent,
    find_overrides,
)
from baremetal_acc_ironic.host_power import gate, host_start
from baremetal_acc_ironic.host_power.gate import Reason
from baremetal_acc_ironic.state import node_store

LOG = log.getLogger(__name__)


class RequestRefused(Exception):
    """The guard refuses the request.

    :ivar error: the exception that Ironic's own formatting turns into the HTTP answer.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class ApiGuard(hooks.PecanHook):
    """The pecan hook: run the check of a route before Ironic's controller is called."""

    priority = 200  # after ContextHook, which has 100

    def __init__(self) -> None:
        self.routes = api_routes.find_routes()
        for name in api_routes.unclassified(self.routes):
            LOG.warning(
                "Ironic's API has a route that this release does not know; its bodies are checked like a node's: %s", name
            )

    def before(self, state: Any) -> None:
        """Run the check of the request's route.

        :raises RequestRefused: the request is not allowed.
        """
        check = self.routes.get(api_routes.name_of(state.controller), RouteCheck.NODE_DOCUMENT)
        try:
            _run(check, state)
        except (exception.IronicException, exception.ClientSideError) as error:
            raise RequestRefused(error) from error

    def on_error(self, state: Any, error: Exception) -> Any:
        """Answer a refused request in the form in which Ironic's controllers answer errors; None for any other error."""
        if not isinstance(error, RequestRefused):
            return None
        reason = error.error
        response = state.response
        response.status = getattr(reason, 'code', 500)
        response.content_type = 'application/json'
        response.json = method.format_exception(
            (type(reason), reason, reason.__traceback__), settings.ironic().debug_tracebacks_in_api
        )
        return response


def install(app: Any) -> None:
    """Add the guard to the pecan application inside Ironic's WSGI application.

    :raises RuntimeError: there is no pecan application: the API must not start without the guard.
    """
    found = next((inner for inner in _layers(app) if isinstance(inner, Pecan)), None)
    if found is None:
        raise RuntimeError(
            "baremetal-acc-policy: no pecan application was found in Ironic's API (name baremetal-acc-policy first in [api] "
            'middleware)'
        )
    found.hooks = sorted([*found.hooks, ApiGuard()], key=lambda hook: hook.priority)


def _layers(app: Any) -> Iterator[Any]:
    """Yield an application, and those that it wraps: in an attribute, or in the closure of a function."""
    pending, seen = [app], set[int]()
    while pending:
        layer = pending.pop()
        if id(layer) in seen or isinstance(layer, type) or not callable(layer):
            continue
        seen.add(id(layer))
        yield layer
        pending += inspect.getclosurevars(layer).nonlocals.values() if inspect.isfunction(layer) else ()
        pending += getattr(layer, '__dict__', {}).values()


def _run(check: RouteCheck, state: Any) -> None:
    match check:
        case RouteCheck.NOTHING:
            return
        case RouteCheck.NODE_DOCUMENT:
            _check_document(state)
        case RouteCheck.START:
            _check_start(state)
        case RouteCheck.ADOPT:
            _check_adoption(state)
        case RouteCheck.ATTACH_MEDIA:
            _check_rule(state, 'baremetal:node:vmedia:attach', policy.ATTACH_RULE)
        case RouteCheck.DETACH_MEDIA:
            _check_rule(state, 'baremetal:node:vmedia:detach', policy.DETACH_RULE)
        case RouteCheck.VENDOR_PASSTHRU:
            _check_rule(state, 'baremetal:node:vendor_passthru', policy.PASSTHRU_RULE)
        case _:
            assert_never(check)


# ------------------------------------------------------------------------------------------------------------ instance_info


def _check_document(state: Any) -> None:
    if not requester.checked():
        return  # Ironic checks no policy at all
    who = requester.of(state.request.context)
    if who is not None and who.system_scope == 'all':
        return
    choosable = tuple(settings.guest().tenant_deploy_interfaces)
    for document in _documents(state):
        found = find_overrides(document, interfaces=interface_overrides.KEYS, choosable=choosable)
        if found:
            node = _node_named(state, document)
            LOG.warning('node %s: %s may not write %s of instance_info', node, who and who.label, ', '.join(map(_key, found)))
            raise exception.ClientSideError(_why_not(node, found), status_code=403)


def _documents(state: Any) -> Iterator[object]:
    """Yield what the controller gets: the arguments that pecan has found, and the body as ``method.body`` decodes it."""
    yield from _arguments(state).values()
    if not state.request.body:
        return
    try:
        yield state.request.json
    except RecursionError as error:
        raise exception.ClientSideError('The body of the request is nested too deeply.') from error
    except (ValueError, LookupError) as error:
        # No JSON, or an unknown encoding. The controller decodes the same bytes in the same way next, and fails likewise.
        LOG.debug('the body of a request cannot be decoded: %s', error)


def _node_named(state: Any, document: object) -> str:
    ident = _arguments(state).get('node_ident')
    if ident is None and isinstance(document, dict):
        ident = document.get('name') or document.get('uuid')
    return str(ident) if ident else '(new)'


def _key(finding: Finding) -> str:
    match finding:
        case InterfaceOverride(key=key):
            return key
        case UnknownContent():
            return 'all'
        case _:
            assert_never(finding)


def _why_not(node: str, findings: tuple[Finding, ...]) -> str:
    keys = [finding.key for finding in findings if isinstance(finding, InterfaceOverride)]
    if not keys:
        return (
            f'Node {node}: the request writes all of instance_info without naming its keys. Without system scope they must be '
            'named, since some keys select the code that Ironic runs for the node: use "add" or "replace" with an object.'
        )
    named = ', '.join(f'instance_info/{key}' for key in keys)
    own = ', '.join(keys)
    choice = ', or to name the interface in [baremetal_acc] tenant_deploy_interfaces' if DEPLOY_INTERFACE in keys else ''
    it = 'it' if len(keys) == 1 else 'them'
    return (
        f'Node {node}: {named} may only be written with system scope, because Ironic would use {it} in place of {own} of the '
        f'node itself, and so run other code. Leave {it} out of the request; to use another interface, ask a system '
        f'administrator to change {own} of the node{choice}.'
    )


# -------------------------------------------------------------------------------------------------------- nodes of our types


def _check_start(state: Any) -> None:
    target = _arguments(state).get('target')
    if not isinstance(target, str) or target not in host_start.STARTING:
        return  # Ironic (400) and the power interface refuse targets that they do not know
    node = _find_node(state, 'baremetal:node:set_power_state')
    if node.driver not in opts.HARDWARE_TYPES:
        return
    why = host_start.refusal(node, target, requester.of(state.request.context))
    if why is not None:
        LOG.warning('node %s: %s is refused: %s', node.uuid, target, why)
        raise exception.ClientSideError(why, status_code=409)


def _check_adoption(state: Any) -> None:
    """Refuse to adopt a node while an earlier deployment's proof, certificate, waivers or requested functions are stored.

    An adoption calls nothing of ours in the conductor. There these count no more, too, since the undeploy has ended
    (:mod:`baremetal_acc_ironic.state.proof`); an earlier version may have left some that do.
    """
    if _arguments(state).get('target') != states.VERBS['adopt']:
        return
    node = _find_node(state, 'baremetal:node:set_provision_state')
    is_over = not gate.counts(Reason.PROVEN, node.provision_state)
    if node.driver in opts.HARDWARE_TYPES and is_over and node_store.of_deployment(node.driver_internal_info):
        why = (
            f'node {node.name or node.uuid}: adopt is refused: what was proven for its last deployment is still stored '
            '(the conductor removes it in its next round: retry in a moment)'
        )
        LOG.warning('%s', why)
        raise exception.ClientSideError(why, status_code=409)


def _check_rule(state: Any, theirs: str, ours: str) -> None:
    """Check a rule of ours in addition to Ironic's own."""
    node = _find_node(state, theirs)
    if node.driver in opts.HARDWARE_TYPES:
        api_utils.check_owner_policy('node', ours, node.owner, node.lessee)


def _find_node(state: Any, rule: str) -> Any:
    """Return the node of the request.

    Ironic's own rule is checked first; its error reveals no more than without us.
    """
    ident = getattr(state.controller.__self__, 'node_ident', None) or _arguments(state).get('node_ident')
    return api_utils.check_node_policy_and_retrieve(rule, ident)


def _arguments(state: Any) -> dict[str, Any]:
    """Return the arguments of the controller by name: pecan takes them from path, query and body alike."""
    given = state.arguments
    names = inspect.signature(state.controller).parameters  # those of the method that Ironic's decorators wrap
    return dict(zip(names, [*given.args, *given.varargs], strict=False)) | dict(given.varkw)
