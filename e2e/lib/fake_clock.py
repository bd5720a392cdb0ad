"""Programs whose wall clock is set by a file, by libfaketime; their monotonic clock is the real one."""
import contextlib
import os
import pathlib
import unittest

import kit

LIBRARY = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
needed = unittest.skipUnless(LIBRARY.exists() and not kit.SANITIZED, "needs libfaketime, which does not go with AddressSanitizer")


def variables(file) -> dict[str, str]:
    """Environment of a program whose clock `file` sets: it holds one line such as "+400d"."""
    return {"LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}  # fmt: skip


@contextlib.contextmanager
def for_children(file):
    """What is started meanwhile has that clock."""
    more = variables(file)
    before = {key: os.environ.get(key) for key in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
