"""Memory that this process may still allocate (Linux; proc(5), and the kernel's admin-guide on control groups)."""

from __future__ import annotations

from pathlib import Path


def memory_free() -> int | None:
    """Bytes this process may still allocate, by system, control groups and its own limit; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return min([*available, *left_in_groups(groups, Path("/sys/fs/cgroup")), *left_of_addresses()], default=None)


#: File names of a control group's limit and use, by version (Linux, admin-guide/cgroup-v2 and cgroup-v1/memory).
GROUPS = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}


def left_in_groups(membership: str, root: Path) -> list[int]:
    """Bytes left in each control group around a process that has a limit; cached files count as free.

    Args:
        membership: the text of /proc/self/cgroup.
        root: where control groups are mounted.
    """
    left = []
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        kind, _, path = rest.partition(":")
        if kind in GROUPS and path.startswith("/"):
            own = Path(path.lstrip("/"))
            left += [left_in(root / kind / group, *GROUPS[kind]) for group in (own, *own.parents)]
    return [bytes_left for bytes_left in dict.fromkeys(left) if bytes_left is not None]


def left_in(group: Path, limit: str, used: str) -> int | None:
    """Bytes left in one control group; None if it has no limit or cannot be read."""
    try:
        most = (group / limit).read_text().strip()
        if not most.isdecimal():
            return None
        left = int(most) - int((group / used).read_text())
        lines = (group / "memory.stat").read_text().splitlines() if (group / "memory.stat").exists() else []
        return left + sum(int(line.split()[1]) for line in lines if line.startswith(("active_file ", "inactive_file ")))
    except (OSError, ValueError):
        return None


def left_of_addresses() -> list[int]:
    """Bytes left under the limit on this process's address space (`ulimit -v`); empty if it has none."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return [max(0, limit - pages * resource.getpagesize())]
    except (ImportError, OSError, ValueError):
        return []
