"""Show the description of a checkpoint as tables."""

from __future__ import annotations

from bloomery.base.print_table import print_table, print_titled
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from training.checkpoint.inspection import Inspection, grouped

_MOST_LINES = 20
"""Number of problems that are shown."""


def show_inspection(found: Inspection) -> None:
    """Print the description on stdout, and problems on stderr."""
    layout = f"{found.tensor_parallel} tensor x {found.pipeline_parallel} pipeline x {found.data_parallel} data ranks"
    optimizer = found.optimizer
    state = "missing" if optimizer is None else ", ".join(("fp32 master weights", *optimizer.moments))
    if optimizer is not None and optimizer.steps is not None:
        state += f" after {optimizer.steps:,.0f} updates"
    if optimizer is not None and optimizer.loss_scale is not None:
        state += f"; loss scale {optimizer.loss_scale:g}"
    rows = [
        ("iteration", f"{found.iteration:,}"),
        ("consumed", f"{found.consumed_samples:,} samples, {found.consumed_tokens:,} tokens"),
        ("layout", layout + (", sequence-parallel" if found.sequence_parallel else "")),
        ("first layers of the stages", ", ".join(map(str, found.stage_layers[:-1]))),
        ("parameters", f"{found.parameters:,}"),
        ("precision", found.precision),
        ("optimizer state", state),
        ("reference logits", "yes" if found.reference_logits else "no"),
        ("files", f"{found.files:,}, {format_bytes(found.bytes)}"),
        ("saved with", ", ".join(f"{name} {version[:12]}" for name, version in sorted(found.versions.items()))),
        ("changes of the configuration", str(len(found.changes))),
        ("repairs", str(len(found.repairs))),
        ("copies that differ", str(len(found.drift)) if found.drift else "none"),
    ]
    print_table(("", ""), rows, title=found.checkpoint)
    tensors = [
        (name, str(count), " x ".join(map(str, each.shape)), each.dtype or "unknown", each.split)
        for name, each, count in grouped(found.tensors)
    ]
    print_titled(("tensor", "number", "shape", "type", "split"), tensors, "tensors")
    problems = [] if found.damaged is None else [f"the checkpoint is marked as damaged: {found.damaged}"]
    problems += [f"{each.what}: the copies in {', '.join(each.copies)} differ" for each in found.drift]
    problems += found.problems
    for problem in problems[:_MOST_LINES]:
        say(problem)
    if len(problems) > _MOST_LINES:
        say(f"{len(problems) - _MOST_LINES} more problems; `--json` prints all of them")
