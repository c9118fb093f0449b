"""Make a configuration with the size of BLOOM-176B."""

from __future__ import annotations

from bloomery.checks.load_config import validate_config
from bloomery.config.run import RunConfig


def big(tensor: int = 4, pipeline: int = 12, data: int = 8) -> RunConfig:
    """Return a configuration with the model and the batches of BLOOM-176B."""
    return validate_config(
        {
            "name": "big",
            "sources": [{"name": "s", "kind": "parquet", "paths": ["/data/*.parquet"], "language": "fr"}],
            "corpus": {"dedup": {"partitions": 512}, "judge": {"thresholds": {"fr": {"min_words": 7}}}},
            "tokenizer": {"vocabulary_size": 250_680},
            "model": {"layers": 70, "hidden_size": 14336, "heads": 112, "sequence_length": 2048},
            "training": {
                "train_samples": 220_000_000,
                "parallel": {"tensor": tensor, "pipeline": pipeline, "data": data},
                "batch": {
                    "micro_batch_size": 2,
                    "global_batch_size": 2048,
                    "rampup": {"start": 16, "increment": 16, "samples": 9_765_625},
                },
                "optimizer": {
                    "learning_rate": 6e-5,
                    "min_learning_rate": 6e-6,
                    "warmup_samples": 183_105,
                    "decay_samples": 200_000_000,
                    "beta2": 0.9,
                },
                "activation_checkpointing": "none",
                "partition": "uniform",
                "checkpoint": {"every_iterations": 100, "keep_last": 20, "keep_every_iterations": 1000},
                "segment": {"max_crashes": 7},
                "on_change": "refuse",
                "peak_tflops": 312,
            },
            "publish": {"hub": True, "owner": "somebody"},
        }
    )
