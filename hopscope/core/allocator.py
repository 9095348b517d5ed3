"""The C library's allocator, told to keep what a step of training frees, for the next step asks for the same again.

By default glibc hands large blocks back to the system, which must clear every page before it lends it again: thousands
of page faults a step. See mallopt(3): nothing is trimmed from the heap's end, and no block is mapped on its own. What a
process holds is then the most that it ever needed at once; no number changes.
"""

from __future__ import annotations

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h


@cache
def keep_freed_memory() -> bool:
    """Once for the process; False where the C library is not glibc, and all stays as it was."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, -1)) and bool(mallopt(M_MMAP_MAX, 0))
