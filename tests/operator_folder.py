# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The folder ``operator`` that the demo leaves, without running the demo; pages go on from it."""

from pathlib import Path

from baremetal_acc.demo import documents
from baremetal_acc.demo.service_files import write_certificate_key

MODELS = {'gpu': 'h100', 'fpga': 'd5005', 'slot': 'd5005', 'nic': 'bluefield3'}
"""Models of the cards of an acc-server, by the part that an image is for."""


def write_operator_folder(state: Path) -> Path:
    """Write the operator's files, and the key for certificates next to the folder.

    :param state: the folder that the demo would have got as ``--state``.
    """
    folder = state / 'operator'
    documents.write_conf(folder)
    documents.write_trust(folder)
    documents.write_baseline(folder)
    documents.write_catalogue(folder, documents.CATALOGUE, documents.write_images(folder, documents.CATALOGUE, MODELS))
    documents.write_images(folder / 'tenant', documents.TENANTS, MODELS)
    write_certificate_key(state)
    return folder
