"""What makes a folder equal to a directory: a plan, from what is listed and what is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Plan:
    """External ids by what becomes of them, each list sorted; `kept` are stored, and listed but not to be compared."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def finds_nothing(self) -> bool:
        """Whether the folder has documents and the directory has none of them, under whatever name."""
        return bool(self.deleted) and not (self.changed or self.renamed or self.unchanged or self.kept)

    def written(self) -> set[str]:
        """The ids of the documents that are to be ingested."""
        return {*self.new, *self.changed, *(new for _, new in self.renamed)}

    def without_deletions(self) -> Plan:
        """The plan that only adds: what was renamed is new, beside the old."""
        return replace(self, new=tuple(sorted(self.written() - {*self.changed})), renamed=(), deleted=())


def plan(
    listed: Mapping[str, bytes | None], stored: Mapping[str, bytes], waiting: AbstractSet[str] = frozenset()
) -> Plan:
    """What makes *stored* equal to *listed*, both fingerprints by external id.

    None is the fingerprint of what is there and cannot be compared: its document stays. *waiting* are uploads under
    way, which may change what is stored at any moment.
    """
    here = {name: fingerprint for name, fingerprint in listed.items() if fingerprint is not None}
    known = stored.keys() | waiting
    gone = known - listed.keys()
    renamed = _renamed({n: here[n] for n in here.keys() - stored.keys()}, {n: stored[n] for n in gone & stored.keys()})
    same = {name for name in here.keys() & stored.keys() - waiting if here[name] == stored[name]}
    return Plan(
        new=tuple(sorted(here.keys() - stored.keys() - {new for _, new in renamed})),
        changed=tuple(sorted(here.keys() & stored.keys() - same)),
        renamed=renamed,
        deleted=tuple(sorted(gone - {old for old, _ in renamed})),
        unchanged=tuple(sorted(same)),
        kept=tuple(sorted(known & (listed.keys() - here.keys()))),
    )


def _renamed(new: Mapping[str, bytes], gone: Mapping[str, bytes]) -> tuple[tuple[str, str], ...]:
    """Pairs of one content, the old name and the new, by the new: the first with the first when there are several."""
    olds: dict[bytes, list[str]] = defaultdict(list)
    for name in sorted(gone, reverse=True):
        olds[gone[name]].append(name)
    return tuple((olds[new[name]].pop(), name) for name in sorted(new) if olds[new[name]])
