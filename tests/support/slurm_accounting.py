"""Run a temporary SLURM cluster that keeps accounting records: slurmdbd, with a MariaDB server of its own.

The server has its own folder, listens only on a socket in that folder, and reads none of the machine's files of
settings. A database that the machine runs as a service is neither used nor disturbed.
"""

from __future__ import annotations

import contextlib
import getpass
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from slurm_cluster import SlurmCluster, missing_programs, path_of_programs
from waiting import wait_for

ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr")
ACCOUNT = "lab"
"""Account to which all users of the cluster belong."""
ADMINISTRATOR = "nobody"
"""Account of the operating system that may cancel the jobs of every user of the cluster."""
ADMINISTRATOR_UID = pwd.getpwnam(ADMINISTRATOR).pw_uid

_SLURMDBD = """\
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
LogFile={folder}/log/slurmdbd
PidFile={folder}/pid/slurmdbd
"""

_CLIENTS = """\
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStorageEnforce=associations
"""
"""Further lines of slurm.conf. The cluster refuses jobs of users and accounts that it does not know."""


def missing_accounting_programs() -> list[str]:
    """Return the programs of a cluster with accounting that this machine lacks."""
    path = path_of_programs()
    return missing_programs() + [name for name in ACCOUNTING_PROGRAMS if shutil.which(name, path=path) is None]


class AccountingCluster(SlurmCluster):
    """A SLURM cluster with accounting. Use it as a context manager."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """Write the cluster's files.

        Args:
            folder: folder of all files of the cluster. Its path must be short, because it contains a socket.
            settings: settings of slurm.conf that replace others, such as `KillWait`.
        """
        accounting = {"AccountingStorageType": "accounting_storage/slurmdbd"}
        super().__init__(folder, settings=accounting | dict(settings or {}))
        with self.configuration.open("a") as file:
            file.write(_CLIENTS.format(port=self.spare_port))
        self._data, self._socket = folder / "database", folder / "database.socket"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        # slurmdbd reads the file beside slurm.conf, and only if nobody else can read it.
        private = folder / "etc/slurmdbd.conf"
        private.touch(0o600)
        private.write_text(_SLURMDBD.format(port=self.spare_port, user=getpass.getuser(), folder=folder))

    def __enter__(self) -> AccountingCluster:
        try:
            self._start_database()
            self.start_accounting()
            self._register()
            super().__enter__()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        finally:
            for name in ("slurmdbd", "mariadbd"):
                self._end_child(name)

    def _start_database(self) -> None:
        """Make the folder of the database, start MariaDB, and wait until it listens."""
        place = ("--no-defaults", f"--datadir={self._data}")
        # With `--user`, this program would also change the owner of a folder of the machine's own database.
        install = ("mariadb-install-db", *place, "--auth-root-authentication-method=normal", "--skip-test-db")
        made = self.run(*install, timeout=300)
        assert made.returncode == 0, made.stdout + made.stderr
        # Little memory is enough, and the database need not survive a power failure.
        small = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0")
        options = (*place, f"--user={getpass.getuser()}", "--skip-networking", f"--socket={self._socket}", *small)
        daemon = self._start_child("mariadbd", *options)
        wait_for(self._socket.exists, 60, daemon, every=0.05)

    def start_accounting(self) -> None:
        """Start slurmdbd, and wait until it answers."""
        daemon = self._start_child("slurmdbd", "-D")
        wait_for(lambda: self.run("sacctmgr", "--noheader", "show", "cluster").returncode == 0, 60, daemon, every=0.1)

    def wait_for_records(self) -> None:
        """Wait until slurmctld has sent all its records to slurmdbd."""
        wait_for(lambda: "DBD Agent queue size: 0" in self.run("sdiag").stdout, 60, every=0.5)

    def stop_accounting(self) -> None:
        """Kill slurmdbd. Until its next start, sacct and sacctmgr fail, and slurmctld keeps the records for later."""
        daemon = self._children.pop("slurmdbd")
        daemon.kill()
        daemon.wait(20)

    def _start_child(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a daemon that stays a child of this process."""
        with (self.folder / f"log/{name}.output").open("ab") as output:
            self._children[name] = subprocess.Popen(
                [name, *options],
                # slurmdbd has no setting for the socket. Its database library takes the path from this variable.
                env={**self.environment, "MYSQL_UNIX_PORT": str(self._socket)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._children[name]

    def _end_child(self, name: str) -> None:
        if daemon := self._children.pop(name, None):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(20)
            daemon.kill()
            daemon.wait(20)

    def _register(self) -> None:
        """Add the cluster, and the users whose jobs it accepts, to the database."""
        for entity in (
            ("cluster", "test"),
            ("account", ACCOUNT),
            ("user", getpass.getuser(), f"account={ACCOUNT}", f"defaultaccount={ACCOUNT}"),
            ("user", ADMINISTRATOR, f"account={ACCOUNT}", "adminlevel=Admin"),
        ):
            added = self.run("sacctmgr", "--immediate", "add", *entity)
            assert added.returncode == 0, added.stdout + added.stderr

    def cancel_as_administrator(self, job: str) -> None:
        """Cancel a job as `ADMINISTRATOR`. Only root can play another user."""
        # The cluster's files are in a folder of root, which the other user may read nevertheless.
        read = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
        person = ("setpriv", f"--reuid={ADMINISTRATOR_UID}", "--clear-groups", *read)
        done = self.run(*person, "scancel", job)
        assert done.returncode == 0, done.stderr
