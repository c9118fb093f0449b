"""Paths of everything in one run. Snakemake rules and commands use only these paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunPaths:
    """Paths below a run's folder, `<root>/<name>/`."""

    run: Path

    @classmethod
    def of(cls, root: str, name: str) -> RunPaths:
        """Return the paths of run `name` under `root`."""
        return cls(Path(root) / name)

    @property
    def config(self) -> Path:
        """Folder of the configuration's sections, with one JSON file for each stage."""
        return self.run / "config"

    @property
    def corpus(self) -> Path:
        """Folder of raw, stripped, measures, verdicts, duplicates, clean, quarantine and mixture.json."""
        return self.run / "corpus"

    @property
    def tokenizer(self) -> Path:
        """Folder of count tables, of the result of the gate, and of links to tokenizer.json and the files beside it."""
        return self.run / "tokenizer"

    @property
    def index(self) -> Path:
        """Folder of token files, and of links to index.json, its arrays and its token files."""
        return self.run / "index"

    @property
    def index_manifest(self) -> Path:
        """Manifest of the index."""
        return self.index / "index.json"

    @property
    def train(self) -> Path:
        """Folder of checkpoints, segments, logs and control."""
        return self.run / "train"

    @property
    def checkpoints(self) -> Path:
        """Folder of DeepSpeed checkpoints, one folder for each saved step, and `latest`. It is never a declared output
        of a rule."""
        return self.train / "checkpoints"

    @property
    def segments(self) -> Path:
        """Folder with one JSON file for each segment."""
        return self.train / "segments"

    @property
    def started(self) -> Path:
        """Folder with one JSON file for each segment whose launcher has begun (`bloomery.contracts.segment_start`)."""
        return self.segments / "started"

    @property
    def finished(self) -> Path:
        """File of the last segment, written when the training has finished."""
        return self.train / "finished.json"

    @property
    def logs(self) -> Path:
        """Folder of metrics.jsonl, main_log.txt and tensorboard/."""
        return self.train / "logs"

    @property
    def control(self) -> Path:
        """Folder of files that control a running training: `stop` and `save`."""
        return self.train / "control"

    @property
    def heartbeats(self) -> Path:
        """Folder in which each rank of a running training records its progress (`bloomery.contracts.heartbeat`)."""
        return self.train / "heartbeat"

    @property
    def hangs(self) -> Path:
        """Folder of the stacks that the ranks wrote when the training hung, with one folder for each hang."""
        return self.logs / "hangs"

    @property
    def skips(self) -> Path:
        """File of sample ranges that are not trained on, in addition to those of the configuration."""
        return self.train / "skips.json"

    @property
    def incidents(self) -> Path:
        """Folder of events that guards detected, with the texts of the samples concerned."""
        return self.train / "incidents"

    @property
    def rolled_back(self) -> Path:
        """Folder of checkpoints that roll-backs set aside, with one folder for each roll-back."""
        return self.train / "rolled-back"

    @property
    def before_repair(self) -> Path:
        """Folder of checkpoints as they were before `bloomery checkpoint repair` repaired them."""
        return self.train / "before-repair"

    @property
    def repairing(self) -> Path:
        """Folder in which a checkpoint is repaired."""
        return self.checkpoints / ".repairing"

    @property
    def starts(self) -> Path:
        """File with the number of starts since the last new checkpoint."""
        return self.train / "starts.json"

    @property
    def launches(self) -> Path:
        """File with one line for each start of a segment's launcher."""
        return self.train / "launches.jsonl"

    @property
    def preflight(self) -> Path:
        """Folder with one JSON file for each segment: what the preflight measured on all nodes."""
        return self.train / "preflight"

    @property
    def excluded_nodes(self) -> Path:
        """File of nodes on which no further segment runs, each with the time at which its exclusion ends."""
        return self.train / "excluded_nodes.json"

    @property
    def results(self) -> Path:
        """Folder of the results of stages that write several files, with a pointer for each
        (`bloomery.contracts.result`)."""
        return self.run / "results"

    @property
    def monitoring(self) -> Path:
        """Folder for monitoring the run: the state of the log upload, and the names of the workflows' SLURM jobs."""
        return self.run / "monitoring"

    @property
    def slurm_runs(self) -> Path:
        """File with the job name that each workflow gave its SLURM jobs, one line for each workflow, newest last."""
        return self.monitoring / "slurm_runs.txt"

    @property
    def workflow_command(self) -> Path:
        """File with the command line and the working folder of the newest workflow, and the folder of its run."""
        return self.monitoring / "command.json"

    @property
    def sync_state(self) -> Path:
        """File that records how much of the logs the Hub has."""
        return self.monitoring / "sync.json"

    @property
    def alerts(self) -> Path:
        """Folder of the state of the alerts, and of the list of all messages."""
        return self.run / "alerts"

    @property
    def alert_settings(self) -> Path:
        """Section of the configuration that `bloomery watch` reads."""
        return self.config / "alerts" / "settings.json"

    @property
    def report(self) -> Path:
        """Folder of corpus.json and the report's pages."""
        return self.run / "report"

    @property
    def export(self) -> Path:
        """Folder with a link to the folder of each exported model."""
        return self.run / "export"

    @property
    def published(self) -> Path:
        """Folder of links to publish.json and, if no Hub is configured, to a local copy of the model in the layout of
        the Hub's repository."""
        return self.run / "published"
