"""Run a temporary SLURM cluster on one machine: slurmctld and one slurmd per node, without systemd, munge or root.

Debian's slurmd can run several times on one host with `-N name`. The CPUs and the memory of the nodes are not real;
`config_overrides` makes slurmctld accept them. All files are in one folder. In jobs, Snakemake's executor removes every
SLURM_* variable from the environment, also SLURM_CONF. Jobs still find this cluster, because small wrappers of the
client programs come first on PATH and set SLURM_CONF.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil
from waiting import wait_for

PROGRAMS = ("slurmctld", "slurmd", "sinfo", "sbatch", "srun", "squeue", "scancel", "scontrol")
_WRAPPED = ("srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct", "sacctmgr", "sshare")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/pid/slurmctld
SlurmdPidFile={folder}/pid/%n
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,sched_interval=5,bf_interval=5
SlurmctldTimeout=30
SlurmdTimeout=120
MessageTimeout=60
InactiveLimit=0
MinJobAge=86400
KillWait=120
WaitTime=0
ReturnToService=2
JobRequeue=1
TreeWidth=65533
GresTypes=gpu
NodeName=node[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} Sockets=1 \
CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={memory} Gres=gpu:fake:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=1200 DefaultTime=10 State=UP OverSubscribe=NO
PartitionName=long Nodes=node[1-2] MaxTime=6000 State=UP
"""

PREEMPTION = """\
PartitionName=urgent Nodes=ALL MaxTime=1200 PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=cheap Nodes=ALL MaxTime=1200 PreemptMode=CANCEL State=UP
"""
"""Partitions of a cluster with preemption. A job in `urgent` preempts other jobs. Those in `cheap` are cancelled, and
those in other partitions are requeued."""

_SBATCH = """\
delay=$(cat {folder}/queue-seconds 2>/dev/null)
fault=$(head -n 1 {folder}/sbatch-faults 2>/dev/null)
if [ -n "$fault" ]; then
  sed -i 1d {folder}/sbatch-faults
  [ "$fault" = after ] && ({run} ${{delay:+--begin=now+$delay}} "$@" > {folder}/hidden-jobs)
  echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
  exit 1
fi
{run} ${{delay:+--begin=now+$delay}} "$@"
"""
"""Wrapper of sbatch, which can fail with the words of a real failure, or delay jobs in the queue."""


def missing_programs() -> list[str]:
    """Return the programs of SLURM that this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=path_of_programs()) is None]


def path_of_programs(*first: str) -> str:
    """Return a PATH with the folders `first`, those of this process, and those of daemons."""
    return os.pathsep.join([*first, os.environ.get("PATH", os.defpath), *_SBIN])


def _free_ports(count: int) -> int:
    """Return the first of `count` consecutive loopback ports that are free now."""
    for first in range(17000, 30000, 50):
        sockets = []
        try:
            for port in range(first, first + count):
                tried = socket.socket()
                sockets.append(tried)
                tried.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for tried in sockets:
                tried.close()
    raise RuntimeError("no free ports")


def _is_dead(pid: int) -> bool:
    """Return whether a process has ended. A daemon that nobody waits for can stay a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


class SlurmCluster:
    """A SLURM cluster. Use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        cpus: int = 16,
        memory_mb: int = 64000,
        settings: Mapping[str, str] | None = None,
        partitions: str = "",
    ) -> None:
        """Write the cluster's files.

        Args:
            folder: folder of all files of the cluster.
            nodes: number of nodes.
            cpus: number of CPUs of a node.
            memory_mb: memory of a node.
            settings: settings of slurm.conf that replace others, such as `KillWait`.
            partitions: lines of slurm.conf with further partitions.
        """
        self.folder = folder
        self.nodes = nodes
        port = _free_ports(nodes + 2)
        self.spare_port = port + nodes + 1
        """Port for a further daemon of the cluster."""
        for name in ("etc", "log", "pid", "state", "bin", "gpu", *(f"spool/node{n}" for n in range(1, nodes + 1))):
            (folder / name).mkdir(parents=True, exist_ok=True)
        text = _CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            user=getpass.getuser(),
            folder=folder,
            port=port,
            first=port + 1,
            last=port + nodes,
            nodes=nodes,
            cpus=cpus,
            memory=memory_mb,
        )
        for key, value in (settings or {}).items():
            text = re.sub(rf"^{key}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
        text += partitions
        self.configuration = folder / "etc/slurm.conf"
        self.configuration.write_text(text)
        for number in range(2):
            # The file of a GPU must be a character device. The number at the end of its name is the GPU's index.
            (folder / f"gpu/nvidia{number}").symlink_to("/dev/null")
        gres = f"AutoDetect=off\nName=gpu Type=fake File={folder}/gpu/nvidia[0-1]\n"
        (folder / "etc/gres.conf").write_text(gres)
        for name in _WRAPPED:
            if program := shutil.which(name):
                wrapper = folder / "bin" / name
                run = f"SLURM_CONF={self.configuration} exec {program}"
                script = _SBATCH.format(folder=folder, run=run) if name == "sbatch" else f'{run} "$@"\n'
                wrapper.write_text(f"#!/bin/sh\n{script}")
                wrapper.chmod(0o755)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment for programs that use the cluster."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        return {**kept, "SLURM_CONF": str(self.configuration), "PATH": path_of_programs(str(self.folder / "bin"))}

    def __enter__(self) -> SlurmCluster:
        self._daemon("slurmctld", "-c")
        for number in range(1, self.nodes + 1):
            self.start_node(number)
        self._wait_until_idle()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("scancel", "--quiet", f"--user={getpass.getuser()}", timeout=20)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self.squeue("--noheader"), 30, every=0.2)
        for path in (self.folder / "pid").iterdir():
            self._end(path)

    def _daemon(self, *command: str) -> None:
        subprocess.run(
            [*command, "-f", str(self.configuration)], env=dict(self.environment), check=True, stdin=subprocess.DEVNULL
        )

    def fail_sbatch(self, *faults: str) -> None:
        """Let the next calls of sbatch fail as on a busy cluster, one for each fault.

        After the fault `before` no job exists. After the fault `after` slurmctld has accepted the job.
        """
        (self.folder / "sbatch-faults").write_text("".join(f"{fault}\n" for fault in faults))

    def queue_for(self, seconds: int | None) -> None:
        """Let every new job wait in the queue for at least `seconds` after its submission; None for no wait."""
        path = self.folder / "queue-seconds"
        path.unlink(missing_ok=True) if seconds is None else path.write_text(str(seconds))

    def stop_controller(self) -> None:
        """Kill slurmctld. Its jobs still run, but the client programs fail."""
        pid_file = self.folder / "pid/slurmctld"
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: _is_dead(pid), 10)

    def start_controller(self) -> None:
        """Start slurmctld again, with the jobs that it had."""
        self._daemon("slurmctld")
        wait_for(lambda: self.run("scontrol", "ping").returncode == 0, 30, every=0.2)

    def start_node(self, number: int) -> None:
        """Start node `number` (from 1)."""
        self._daemon("slurmd", "-N", f"node{number}")

    def crash_node(self, number: int) -> None:
        """Kill slurmd of a node and all processes of jobs on the node, as a power failure would."""
        name = f"node{number}"
        pid_file = self.folder / f"pid/{name}"
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        pid_file.unlink()
        for process in psutil.process_iter(["name", "cmdline"]):
            with contextlib.suppress(psutil.Error):
                on_node = process.environ().get("SLURMD_NODENAME") == name
                keeper = process.info["name"] == "slurmstepd" and str(self.folder / f"spool/{name}") in "".join(
                    each.path for each in process.open_files()
                )
                if (on_node and self._is_own(process)) or keeper:
                    process.kill()

    def _is_own(self, process: psutil.Process) -> bool:
        """Return whether a process belongs to a job of this cluster."""
        return str(self.folder / "bin") in process.environ().get("PATH", "")

    def _end(self, pid_file: Path) -> None:
        try:
            pid = int(pid_file.read_text())
            os.kill(pid, signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return
        # A daemon removes its own pid file. A killed daemon leaves the file, and perhaps a zombie.
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not pid_file.exists() or not Path(f"/proc/{pid}").exists(), 10)
        pid_file.unlink(missing_ok=True)

    def _wait_until_idle(self) -> None:
        idle = ("sinfo", "--noheader", "--Node", "--partition=main", "--states=idle", "--format=%N")
        try:
            wait_for(lambda: len(self.run(*idle).stdout.split()) == self.nodes, 30, every=0.1)
        except AssertionError:
            log = (self.folder / "log/slurmctld").read_text()[-2000:]
            raise RuntimeError(f"the nodes did not become idle:\n{log}") from None

    def run(self, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a client program of the cluster."""
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=dict(self.environment))

    def squeue(self, *options: str) -> str:
        """Return the stripped output of squeue."""
        return self.run("squeue", *options).stdout.strip()
