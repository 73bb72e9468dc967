# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Once an image is withdrawn from the image server nobody gets any of it, not even over an earlier connection."""

import http.client
import socket
from urllib.parse import urlsplit

from baremetal_acc.bmc.redfish.image_server import Fetched

from .test_client import upload
from .test_fetch import HERE, IMAGE


def test_an_image_that_was_withdrawn_is_not_there_any_more_for_who_was_there_before() -> None:
    """The connection is kept open, as BMCs keep it; the address is still known."""
    with Fetched(upload(IMAGE), HERE, 'bmc') as served:
        where = urlsplit(served.url)
        connection = http.client.HTTPConnection(where.hostname or '', where.port, timeout=20)
        connection.request('HEAD', where.path)
        first = connection.getresponse()
        first.read()
        assert (200, False) == (first.status, first.will_close)
    connection.request('GET', where.path)
    answer = connection.getresponse()
    assert 404 == answer.status
    assert b'' == answer.read()
    connection.close()


def test_who_is_being_served_when_it_is_withdrawn_gets_no_more() -> None:
    """Slow readers do not keep an image; what is on its way already is all that comes."""
    image = IMAGE * 64
    with Fetched(upload(image), HERE, 'bmc') as served:
        where = urlsplit(served.url)
        reading = socket.create_connection((where.hostname or '', where.port or 0), 20)
        reading.sendall(f'GET {where.path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
        assert reading.recv(15).startswith(b'HTTP/1.1 200')
    got = 0
    with reading:
        while piece := reading.recv(1 << 20):
            got += len(piece)
    assert got < len(image)
