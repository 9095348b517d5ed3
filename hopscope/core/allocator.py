"""The C library's allocator, told to keep what a step of training or a pass frees, and to keep it in huge pages.

The next one asks for the same memory again. By default glibc hands large blocks back to the system, which must clear
every page before it lends it again: thousands of page faults a step. See mallopt(3): nothing is trimmed from the heap's
end, and no block is mapped on its own. What a process holds is then the most that it ever needed at once.

A step reads all of it several times over, and a processor knows the places of few pages at a time. So the heap is made
wide once, as addresses that cost nothing, and the system is asked for pages of 2 MiB there (madvise(2), MADV_HUGEPAGE).
No number changes.
"""

from __future__ import annotations

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
MADV_HUGEPAGE = 14  # asm-generic/mman-common.h
HUGE = 1 << 21
WIDE = 1 << 30  # of addresses; what a model needs beyond lies in pages of the usual size


@cache
def keep_freed_memory() -> bool:
    """Once for the process; False where the C library is not glibc, and all stays as it was."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = bool(mallopt(M_TRIM_THRESHOLD, -1)) and bool(mallopt(M_MMAP_MAX, 0))
    if kept:
        in_huge_pages(library)
    return kept


def in_huge_pages(library: ctypes.CDLL) -> bool:
    """Widen the heap, and ask for huge pages in what it gains; False where the system has no such room or pages."""
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = library.malloc(WIDE)
    if block is None:
        return False
    first = -(-block // HUGE) * HUGE  # whole huge pages, aligned
    asked = library.madvise(first, (block + WIDE - first) // HUGE * HUGE, MADV_HUGEPAGE)
    library.free(block)
    return int(asked) == 0
