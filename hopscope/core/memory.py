"""The memory that this process may still take (Linux; proc(5), and the kernel's admin-guide on control groups)."""

from __future__ import annotations

from pathlib import Path


def memory_free() -> int | None:
    """Bytes that this process may still take: by the system, its control groups, its limit; None where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return min([*found, *left_in_groups(groups, Path("/sys/fs/cgroup")), *left_of_addresses()], default=None)


#: Names of a control group's limit and use, by version (Linux, admin-guide/cgroup-v2 and cgroup-v1/memory).
GROUPS = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}


def left_in_groups(told: str, root: Path) -> list[int]:
    """What each control group around a process leaves, if it has a limit; files that are kept by the way can go.

    Args:
        told: its groups, as in /proc/self/cgroup.
        root: where groups are mounted.
    """
    found = []
    for line in told.splitlines():
        _, _, rest = line.partition(":")
        kind, _, path = rest.partition(":")
        if kind in GROUPS and path.startswith("/"):
            own = Path(path.lstrip("/"))
            found += [left_in(root / kind / group, *GROUPS[kind]) for group in (own, *own.parents)]
    return [left for left in dict.fromkeys(found) if left is not None]


def left_in(group: Path, limit: str, used: str) -> int | None:
    """What a control group leaves; None if it has no limit, or cannot be asked."""
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
    """What a limit on this process's addresses leaves (`ulimit -v`); nothing where there is none."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return [max(0, limit - pages * resource.getpagesize())]
    except (ImportError, OSError, ValueError):
        return []
