"""Where everything of one run lies. The Snakemake rules and the verbs name files through this page only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunPaths:
    """Paths below `<root>/<name>/`."""

    run: Path

    @classmethod
    def of(cls, root: str, name: str) -> RunPaths:
        """Paths of run `name` under `root`."""
        return cls(Path(root) / name)

    @property
    def config(self) -> Path:
        """Stage parts of the configuration."""
        return self.run / "config"

    @property
    def corpus(self) -> Path:
        """raw, stripped, measures, verdicts, duplicates, clean, quarantine, mixture.json."""
        return self.run / "corpus"

    @property
    def tokenizer(self) -> Path:
        """tokenizer.json and its report."""
        return self.run / "tokenizer"

    @property
    def index(self) -> Path:
        """Token files and arrays; index.json is written last."""
        return self.run / "index"

    @property
    def index_manifest(self) -> Path:
        """What the index holds."""
        return self.index / "index.json"

    @property
    def train(self) -> Path:
        """checkpoints, segments, logs, control."""
        return self.run / "train"

    @property
    def checkpoints(self) -> Path:
        """DeepSpeed checkpoints, one folder a step, and `latest`. Never a declared output."""
        return self.train / "checkpoints"

    @property
    def segments(self) -> Path:
        """One JSON a segment."""
        return self.train / "segments"

    @property
    def finished(self) -> Path:
        """The last segment, once the training has finished."""
        return self.train / "finished.json"

    @property
    def logs(self) -> Path:
        """metrics.jsonl, main_log.txt, tensorboard/."""
        return self.train / "logs"

    @property
    def control(self) -> Path:
        """Files that steer a running training: `stop`, `save`."""
        return self.train / "control"

    @property
    def skips(self) -> Path:
        """Ranges of samples that are not trained on, beside those of the configuration."""
        return self.train / "skips.json"

    @property
    def incidents(self) -> Path:
        """What guards saw, and the texts of the samples that it was about."""
        return self.train / "incidents"

    @property
    def rolled_back(self) -> Path:
        """Checkpoints that a roll-back set aside, a folder each time."""
        return self.train / "rolled-back"

    @property
    def starts(self) -> Path:
        """How often a training was started without a new checkpoint."""
        return self.train / "starts.json"

    @property
    def monitoring(self) -> Path:
        """What watches over the run: state of the sync, names of its workflows' SLURM jobs."""
        return self.run / "monitoring"

    @property
    def slurm_runs(self) -> Path:
        """Name of the SLURM jobs of each workflow, a line each, the newest last."""
        return self.monitoring / "slurm_runs.txt"

    @property
    def sync_state(self) -> Path:
        """How far the logs are on the Hub."""
        return self.monitoring / "sync.json"

    @property
    def report(self) -> Path:
        """corpus.json and pages."""
        return self.run / "report"

    @property
    def export(self) -> Path:
        """One folder a model."""
        return self.run / "export"

    @property
    def published(self) -> Path:
        """publish.json and, without a Hub, the local folder of the same layout."""
        return self.run / "published"
