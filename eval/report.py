"""A run told twice: JSON for machines, Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from eval.baseline import DRAWS, SEED, Change, Comparison
from eval.gate import Verdict
from eval.metrics import percentile
from eval.outcome import STAGES, Metrics, grouped, retrieval, summary
from eval.run import Run

COUNTS = ("quote_errors", "degraded_answers", "partial_reranks", "incomplete_searches")
GROUP_COLUMNS = (
    *("questions", "recall@1", "recall@5", "recall@10", "recall@50", "mrr", "ndcg@10", "citation_precision"),
    *("document_precision", "answer_accuracy", "false_abstain_rate", "leak_rate"),
)
STAGE_COLUMNS = ("recall@5", "recall@50", "mrr", "ndcg@10")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run of a suite showed."""

    sha256: str
    run: Run
    verdicts: tuple[Verdict, ...]
    comparison: Comparison | None = None

    def as_json(self) -> str:
        """The whole result; without the key `timings` it is the same, byte for byte, for the same rankings."""
        outcomes = self.run.outcomes
        result = {
            "sha256": self.sha256,
            "models": self.run.models,
            "overall": summary(outcomes),
            "tenants": {name: summary(group) for name, group in grouped(outcomes, "tenant").items()},
            "types": {name: summary(group) for name, group in grouped(outcomes, "type").items()},
            "stages": {stage: retrieval(outcomes, stage) for stage in STAGES},
            "gate": [asdict(verdict) for verdict in self.verdicts],
            "questions": [outcome.model_dump() for outcome in outcomes],
            "timings": _timings(self.run),
        }
        return json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    def as_markdown(self) -> str:
        """The result as a page that reads well in a terminal and in a pull request."""
        outcomes = self.run.outcomes
        groups = {name: summary(group) for by in ("type", "tenant") for name, group in grouped(outcomes, by).items()}
        stages: dict[str, Metrics] = {stage: retrieval(outcomes, stage) for stage in STAGES}
        parts = [
            *self._head(summary(outcomes)),
            *("## Gate", _table(("check", "value", "bar", "verdict"), map(_verdict_cells, self.verdicts))),
            *("## Metrics", _metrics_table({"all": summary(outcomes)} | groups, GROUP_COLUMNS)),
            *("## Stages", _metrics_table(stages, STAGE_COLUMNS)),
            *(_comparison(self.comparison) if self.comparison else ()),
            *("## Latency", _metrics_table(_timings(self.run), ("p50_ms", "p95_ms"))),
        ]
        return "\n\n".join(parts) + "\n"

    def _head(self, overall: Metrics) -> Iterator[str]:
        failed = sum(not verdict.passed for verdict in self.verdicts)
        yield f"# Evaluation of {overall['questions']} questions: {f'{failed} checks FAILED' if failed else 'passed'}"
        counts = ", ".join(f"{name.replace('_', ' ')} {overall[name]}" for name in COUNTS)
        yield f"Suite {self.sha256[:12]}. Answered by {', '.join(self.run.models) or 'no model'}. Counted: {counts}."


def _timings(run: Run) -> dict[str, Metrics]:
    taken = {"search": run.search_ms, "query": run.query_ms}
    return {name: {f"p{p}_ms": percentile(ms, p) for p in (50, 95)} for name, ms in taken.items()}


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield "## Against the baseline"
    if not comparison.same_suite:
        yield "The baseline was made with another suite or corpus: ranks may differ for that reason."
    shared = f"{comparison.shared} questions in both, {comparison.new} new, {comparison.gone} gone."
    yield f"{shared} Drops are judged by a paired randomisation test ({DRAWS} draws, seed {SEED})."
    moved = {name: (old, new) for name, (old, new) in comparison.metrics.items() if old != new}
    rows = ((name, _shown(old), _shown(new), _change(old, new)) for name, (old, new) in moved.items())
    yield _table(("metric", "before", "after", "change"), rows) if moved else "No metric changed."
    for title, changes in (("Worse", comparison.worse), ("Better", comparison.better)):
        yield f"### {title}: {len(changes)}"
        if changes:
            header = ("id", "question", "rank of first gold", "answer", "now in its place")
            yield _table(header, map(_change_cells, changes))


def _change(old: float | None, new: float | None) -> str:
    return f"{new - old:+.3f}" if old is not None and new is not None else "-"


def _change_cells(change: Change) -> Sequence[str]:
    before, after = change.before, change.after
    rank = f"{_shown(before.rank)} -> {_shown(after.rank)}"
    answer = after.verdict if before.verdict == after.verdict else f"{before.verdict} -> {after.verdict}"
    return after.id, after.question, rank, answer, change.usurper


def _verdict_cells(verdict: Verdict) -> Sequence[str]:
    return verdict.check, _shown(verdict.value), verdict.bar, "pass" if verdict.passed else "FAIL"


def _metrics_table(rows: Mapping[str, Metrics], columns: Sequence[str]) -> str:
    return _table(("", *columns), ([name, *(_shown(row[column]) for column in columns)] for name, row in rows.items()))


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * max(3, width) for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)
