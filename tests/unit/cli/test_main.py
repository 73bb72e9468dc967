# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The entry point ends a run without a traceback, however it was started, and files that are none keep nobody waiting."""

import os
import subprocess
import sys
import threading

import pytest

from baremetal_acc import input_file

BEFORE = """
import os, sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == 'baremetal_acc.cli.application':
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from baremetal_acc.cli.main import main
sys.exit(main())
"""


def test_a_ctrl_c_during_the_import_is_no_traceback():
    """It was one for the third of a second that the import takes."""
    done = subprocess.run([sys.executable, '-c', BEFORE], capture_output=True, text=True, check=False)
    assert (130, '', '') == (done.returncode, done.stdout, done.stderr)


CLOSED = """
import os, sys
from baremetal_acc.standard_streams import open_closed
open_closed()
opened = os.open(sys.argv[1], os.O_WRONLY)
print('message', file=sys.stderr, flush=True)
sys.exit(opened)
"""


def test_a_closed_stream_is_not_replaced_by_the_next_file(tmp_path):
    """A message would be written into it: into the state of the targets, for example."""
    path = tmp_path / 'state'
    path.write_text('kept')
    done = subprocess.run(['bash', '-c', 'exec "$@" 2>&-', '-', sys.executable, '-c', CLOSED, str(path)], check=False)
    assert done.returncode > 2
    assert 'kept' == path.read_text()


def test_a_pipe_without_a_writer_is_at_its_end(tmp_path):
    """It is not waited for, and a pipe that somebody writes to is read to its end."""
    os.mkfifo(tmp_path / 'fifo')
    assert b'' == input_file.read(tmp_path / 'fifo', 10)
    reads, writes = os.pipe()
    thread = threading.Timer(0.05, lambda: (os.write(writes, b'text'), os.close(writes)))
    thread.start()
    assert b'text' == input_file.read(f'/dev/fd/{reads}', 10)
    thread.join()
    os.close(reads)


def test_what_has_no_end_is_read_to_the_limit():
    """One byte more shows that there is more."""
    assert 11 == len(input_file.read('/dev/zero', 10))


@pytest.mark.parametrize(('path', 'regular'), [('/dev/null', True), ('/dev/zero', False), ('/', False), (__file__, True)])
def test_a_device_is_no_file_except_the_null_device(path, regular):
    """``--config-file /dev/null`` is a usual way to say: no configuration."""
    assert regular is input_file.is_regular(path)
