"""Settings of glibc's allocator that keep freed memory in the process, in huge pages.

Each training step or forward pass allocates the same sizes that the last one freed. By default glibc returns large
blocks to the system, which clears every page before it hands it out again: thousands of page faults a step. Here the
heap is never trimmed and no block is mapped on its own (mallopt(3)). The process then holds its peak use of memory.

A step reads all of that memory several times, and the processor's TLB covers only a few pages. So the heap is grown
once, which costs addresses but no memory, and pages of 2 MiB are requested for it (madvise(2), MADV_HUGEPAGE).
Results do not depend on any of this.
"""

from __future__ import annotations

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
MADV_HUGEPAGE = 14  # asm-generic/mman-common.h
HUGE = 1 << 21  # bytes of a huge page
WIDE = 1 << 30  # bytes of addresses with huge pages; a model that needs more gets ordinary pages for the rest


@cache
def keep_freed_memory() -> bool:
    """Apply both settings, once per process; returns False, without effect, where the C library is not glibc."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    is_set = bool(mallopt(M_TRIM_THRESHOLD, -1)) and bool(mallopt(M_MMAP_MAX, 0))
    if is_set:
        in_huge_pages(library)
    return is_set


def in_huge_pages(library: ctypes.CDLL) -> bool:
    """Grow the heap by `WIDE` bytes and request huge pages for them; False where either is refused."""
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = library.malloc(WIDE)
    if block is None:
        return False
    first = -(-block // HUGE) * HUGE  # aligned to a huge page
    status = library.madvise(first, (block + WIDE - first) // HUGE * HUGE, MADV_HUGEPAGE)
    library.free(block)
    return int(status) == 0
