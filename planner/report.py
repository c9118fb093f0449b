"""Render a plan as tables of text, which the terminal and the Markdown page show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bloomery.base.units import format_bytes, format_count, format_seconds
from bloomery.spec.batch import describe_batches
from bloomery.spec.export_resources import ExportResources
from bloomery.spec.memory import usable_bytes
from planner.answers import Answers, Failures, Times

Rows = Sequence[tuple[str, ...]]

_SOURCES = {"stated": "stated in the configuration", "estimated": "estimated"}
"""Descriptions of the two sources of a speed."""


@dataclass(frozen=True)
class Table:
    """One table. `columns` is empty if each row is a pair of a name and a value."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


def format_days(days: float) -> str:
    """Return days as text: `133.6` (one decimal from 10 days on) or `0.026` (two significant digits below)."""
    return f"{days:.1f}" if days >= 10 else f"{days:.2g}"


def tables(plan: Answers) -> list[Table]:
    """Return all tables of a plan, in order."""
    found = [
        Table("Model and layout", (), _model(plan)),
        Table(
            f"Memory of a GPU{f' ({plan.gpu})' if plan.gpu else ''}",
            ("stage", *plan.memory),
            _memory(plan),
        ),
        Table("Batch and schedule", (), _schedule(plan)),
        Table("Communication of a GPU in one iteration", (), _communication(plan)),
        Table("Disk", (), _disk(plan)),
    ]
    if plan.export is not None:
        found.append(Table("Export of the model", (), _export(plan.export)))
    if plan.times is not None:
        found.insert(3, Table("Time and energy", (), _times(plan, plan.times)))
    if plan.failures is not None:
        found.append(Table("Failures", (), _failures(plan.failures)))
    if plan.notices:
        rows = [(notice.key, str(notice.value), notice.reason) for notice in plan.notices]
        found.append(Table("Notices", ("key", "value", "notice"), rows))
    if plan.assumed:
        found.append(
            Table("Assumptions about values that are not published", ("key", "reason"), list(plan.assumed.items()))
        )
    return found


def _model(plan: Answers) -> Rows:
    layout = f"tensor {plan.tensor_parallel} x pipeline {plan.pipeline_parallel} x data {plan.data_parallel}"
    return [
        (
            "parameters",
            f"{plan.parameters:,} ({format_count(plan.parameters)}); a formula and the sum of the sizes of all tensors "
            "both give this number",
        ),
        ("family", plan.family),
        ("embedding rows", f"{plan.vocabulary_rows:,}"),
        ("processes", f"{plan.world_size} = {layout}"),
        ("replicas", f"{plan.data_parallel} with {plan.gpus_per_replica} processes each"),
        ("pipeline stages", _runs([f"[{stage}]" for stage in plan.stages])),
        ("weights", _bytes_both_ways(plan.weights_bytes)),
        ("checkpoint", _bytes_both_ways(plan.checkpoint_bytes)),
        (
            "training state",
            f"{plan.bytes_per_parameter} bytes of memory per parameter, before the state is split over GPUs",
        ),
    ]


def _bytes_both_ways(count: int) -> str:
    """Return a size with units of powers of 1024 and of 1000, because published sizes use both."""
    if count < 10**9:
        return format_bytes(count)
    decimal = f"{count / 1e12:.2f} TB" if count >= 10**12 else f"{count / 1e9:.1f} GB"
    return f"{count / 2**40:.2f} TiB ({decimal})" if count >= 2**40 else f"{format_bytes(count)} ({decimal})"


def _runs(words: list[str]) -> str:
    """Join words and merge equal neighbours, such as `[embed|5] 10 x [6] [5|head]`."""
    groups: list[list[str]] = []
    for word in words:
        if groups and groups[-1][0] == word:
            groups[-1].append(word)
        else:
            groups.append([word])
    return " ".join(group[0] if len(group) == 1 else f"{len(group)} x {group[0]}" for group in groups)


def _memory(plan: Answers) -> Rows:
    """Return the rows of the memory table. Stages are columns, so that the table fits into 80 columns."""
    stages = plan.memory.values()
    parts = ("weights", "gradients", "optimizer", "activations", "buffers", "total")
    rows = [(part, *(format_bytes(getattr(stage, part)) for stage in stages)) for part in parts]
    kept = [format_bytes(stage.total - stage.activations + stage.activations_kept) for stage in stages]
    again = [format_bytes(stage.total - stage.activations + stage.activations_recomputed) for stage in stages]
    some = [format_bytes(stage.total - stage.activations + stage.activations_selective) for stage in stages]
    rows += [
        ("total, full recomputation", *again),
        ("total, selective recomputation", *some),
        ("total, no recomputation", *kept),
    ]
    if plan.gpu_memory_bytes is not None:
        usable = usable_bytes(plan.gpu_memory_bytes)
        verdicts = ["yes" if stage.total <= usable else "NO" for stage in stages]
        if not plan.fits and "NO" not in verdicts:
            # The fullest stage lies between those that are shown.
            verdicts[-2] = "NO, a stage not shown needs more"
        rows.append((f"fits in 95 % of {format_bytes(plan.gpu_memory_bytes)}", *verdicts))
    return rows


def _schedule(plan: Answers) -> Rows:
    sizes = describe_batches(plan.batches)
    rule = [("rule of the peak", plan.batch_scaling)] if plan.batch_scaling else []
    share = f" ({plan.warmup_iterations / plan.iterations:.1%} of the training)" if plan.warmup_iterations else ""
    return [
        ("iterations", f"{plan.iterations:,}"),
        ("samples", f"{plan.train_samples:,}"),
        ("tokens", f"{plan.train_tokens:,} ({format_count(plan.train_tokens)})"),
        ("global batch", f"{sizes}; each size is a multiple of micro-batch size x data-parallel size"),
        ("micro-batches", f"{plan.micro_batches} for each replica at the full batch"),
        ("pipeline bubble", f"{plan.bubble_fraction:.1%} of an iteration at the full batch"),
        ("learning rate", f"{plan.peak_learning_rate:.3E} at most, {plan.end_learning_rate:.3E} at the end"),
        *rule,
        ("warm-up", f"{plan.warmup_iterations:,} iteration{'' if plan.warmup_iterations == 1 else 's'}{share}"),
        ("operations", f"{plan.model_flops:.3g} FLOPs without recomputation"),
    ]


def _times(plan: Answers, times: Times) -> Rows:
    hfu = f" ({times.hfu:.1%} of the peak)" if times.hfu is not None else ""
    mfu = f" (MFU {times.mfu:.1%})" if times.mfu is not None else ""
    rows = [
        ("iteration time", f"{times.seconds_per_iteration:.2f} s at the full batch ({_SOURCES[times.source]})"),
        ("hardware TFLOP/s per GPU", f"{times.tflops_hardware:.1f}, including recomputation{hfu}"),
        ("model TFLOP/s per GPU", f"{times.tflops_model:.1f}{mfu}"),
        ("days", f"{format_days(times.days)} without interruptions, including saves and validations"),
        ("node hours", f"{times.node_hours:,.0f} ({times.gpu_hours:,.0f} GPU hours)"),
    ]
    if times.energy_kwh is not None:
        rows.append(("energy", f"{times.energy_kwh:,.0f} kWh"))
    if times.co2_kg is not None:
        rows.append(("CO2", f"{times.co2_kg / 1000:,.1f} t, from electricity alone"))
    return rows


def _communication(plan: Answers) -> Rows:
    sent = plan.communication
    return [
        ("tensor parallel", f"{format_bytes(sent.tensor)} sent in all-reduces within blocks"),
        ("pipeline", f"{format_bytes(sent.pipeline)} sent to neighbouring stages"),
        ("data parallel", f"{format_bytes(sent.data)} of gradients and weights sent"),
    ]


def _disk(plan: Answers) -> Rows:
    disk, text = plan.disk, plan.disk.text
    rows = [
        (
            "checkpoints",
            f"{format_bytes(disk.checkpoints)} for at most {disk.kept_checkpoints} checkpoints of "
            f"{format_bytes(disk.checkpoint)}, including the one being written",
        ),
        ("exported model", _exported(disk.export)),
        (
            "token index",
            f"{format_bytes(disk.index)} for {text.tokens:,} tokens in {text.documents:,} documents and "
            f"{len(text.languages)} language{'' if len(text.languages) == 1 else 's'}",
        ),
    ]
    if text.assumed:
        keys = ", ".join(text.assumed)
        assumed = ", ".join(text.assumed.values())
        rows.append(("assumed for the index", f"{assumed} (to state your own values, set {keys})"))
    return [
        *rows,
        ("logs", f"{format_bytes(disk.logs)} for all iterations and validations, TensorBoard included"),
        ("total", format_bytes(disk.total)),
    ]


def _exported(size: int) -> str:
    if not size:
        return "none, because export.enabled is false"
    return f"{format_bytes(size)}, including its published copy"


def _export(needs: ExportResources) -> Rows:
    return [
        ("memory", f"{format_bytes(needs.memory_bytes)}, for any number of layers"),
        ("threads", str(needs.threads)),
        ("limit of the run time", f"{format_seconds(needs.seconds)}, for a slow disk and slow cores"),
    ]


def _failures(failures: Failures) -> Rows:
    days = "never ends" if failures.days_with_failures is None else f"takes {failures.days_with_failures:.1f} days"
    return [
        ("time between failures", f"{failures.days_between_failures:g} days"),
        ("time of a save", format_seconds(failures.save_seconds)),
        *_reference(failures),
        (
            "configured save interval",
            f"{failures.interval_iterations} iterations; {failures.lost_fraction:.1%} of the time is lost, and the "
            f"training {days}",
        ),
        (
            "best save interval (Daly's formula)",
            f"{failures.best_iterations} iterations; {failures.best_lost_fraction:.1%} of the time is lost "
            f"(Young's formula: {failures.young_iterations} iterations)",
        ),
    ]


def _reference(failures: Failures) -> Rows:
    if not failures.reference_seconds:
        return []
    about = "plan.save_seconds must include this time" if failures.save_is_stated else "included in the time of a save"
    return [("reference logits of a save", f"{format_seconds(failures.reference_seconds)} (estimated); {about}")]
