"""Draw the figure of a plan: global batch size, learning rate and memory of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.base.render_figure import COLOUR, SECOND_COLOUR, svg
from bloomery.spec.trajectory import Trajectory, trajectory
from planner.answers import Answers
from planner.planned_state import state_at

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

_POINTS = 240
"""Number of points of the learning rate's curve."""
_PARTS = {
    "weights": "#b3541e",
    "gradients": "#d9a066",
    "optimizer": "#2f6f73",
    "activations": "#7fa99b",
    "buffers": "#c9c2b8",
}


def figure(config: RunConfig, plan: Answers) -> str:
    """Return an `<svg>` element with three panels."""
    run = trajectory(config.model, config.training)

    def draw(canvas: Any) -> None:
        ladder, rate, memory = canvas.subplots(1, 3, width_ratios=(1.15, 1.15, 1))
        _ladder(ladder, run, bool(config.training.curriculum))
        _rate(rate, config, plan, run)
        _memory(memory, plan)

    return svg(draw, (11.0, 3.1), transparent=False)


def _ladder(axes: Any, run: Trajectory, curriculum: bool) -> None:
    starts = [each.iteration for each in run.stretches] + [run.iterations]
    sizes = [each.global_batch_size for each in run.stretches]
    axes.stairs(sizes, starts, color=COLOUR, linewidth=1.4, baseline=None)
    axes.set_ylim(0, max(sizes) * 1.08)
    axes.set_title("global batch and length of samples" if curriculum else "global batch", fontsize=9)
    axes.set_xlabel("iteration")
    axes.set_ylabel("samples")
    axes.tick_params(axis="x", labelrotation=20)
    if curriculum:
        other = axes.twinx()
        lengths = [each.sequence_length for each in run.stretches]
        other.stairs(lengths, starts, color=SECOND_COLOUR, linewidth=1.2, baseline=None)
        other.set_ylim(0, max(lengths) * 1.08)
        other.set_ylabel("tokens of a sample", color=SECOND_COLOUR)
        other.grid(visible=False)


def _rate(axes: Any, config: RunConfig, plan: Answers, run: Trajectory) -> None:
    # The points are denser at the beginning, because of the warm-up.
    steps = sorted({round(run.iterations * (number / _POINTS) ** 2) for number in range(_POINTS + 1)})
    states = [state_at(config, iteration=step) for step in steps]
    axes.plot(
        [state.consumed_tokens / 1e9 for state in states], [state.learning_rate for state in states], color=COLOUR
    )
    axes.set_ylim(0, plan.peak_learning_rate * 1.08)
    axes.set_title("learning rate", fontsize=9)
    axes.set_xlabel("tokens, 10^9")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))


def _memory(axes: Any, plan: Answers) -> None:
    names = list(plan.memory)
    floor = [0.0] * len(names)
    for part, colour in _PARTS.items():
        heights = [getattr(stage, part) / 2**30 for stage in plan.memory.values()]
        axes.bar(names, heights, bottom=floor, color=colour, label=part, width=0.62)
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    if plan.gpu_memory_bytes is not None:
        limit = plan.gpu_memory_bytes / 2**30
        axes.axhline(limit, color="black", linewidth=1.0, linestyle="--")
        axes.annotate(plan.gpu, (-0.4, limit), (0, 2), textcoords="offset points", fontsize=7)
        axes.set_ylim(0, max(limit, *floor) * 1.12)
    axes.set_title("memory of a GPU, GiB", fontsize=9)
    axes.set_xlabel("stage")
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
