"""Section `training.optimizer.lamb`: the dialect of LAMB and the norms in its trust ratios."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import NotBool, Section


class LambConfig(Section):
    """Variant of LAMB (You et al. 2020, arXiv:1904.00962). Each parameter's update is scaled by a trust ratio, the norm
    of the weights divided by the norm of the update. docs/lamb.md states the formulas of all dialects."""

    dialect: Literal["apex", "floor", "innovation", "embedding_gain"] = "apex"
    """`apex`: NVIDIA's FusedLAMB. The ratio is 1 if a norm is 0, and for parameters without weight decay. `floor`:
    every parameter has a ratio, and the norm of the weights is at least 1e-5 x number of elements. `innovation`: like
    `floor`, but with two updates of equal norm: one along the running mean of the gradient, and one along the
    difference between the gradient and that mean. It needs a third moment. `embedding_gain`: like `floor`, but without
    the bias correction of the mean, and large parameters have a higher learning rate."""
    use_nvlamb: bool = False
    """Whether parameters without weight decay have a trust ratio, too. Only for the dialect `apex`."""
    alpha: Annotated[float, Field(ge=0, examples=[1.0]), NotBool] | None = None
    """Gain of large parameters. The learning rate of each parameter is multiplied by 1 + alpha x its size / the size of
    the largest parameter. Only for the dialect `embedding_gain`, whose default is 1."""
    norms: Literal["exact", "shard", "stale_weights", "stale"] = "exact"
    """Norms from which the trust ratio is computed. `exact`: those of the whole parameter, so the ratio does not depend
    on the layout. `shard`: those of each tensor-parallel rank's shard. `stale_weights`: the weight norm of the previous
    update, and the update norm of the shard. `stale`: both norms of the previous update, so that their sum over the
    ranks overlaps with the next gradients. All except `exact` exist for comparisons."""

    @property
    def is_stale(self) -> bool:
        """Whether a norm of the previous update is used, which checkpoints must then contain."""
        return self.norms in ("stale_weights", "stale")
