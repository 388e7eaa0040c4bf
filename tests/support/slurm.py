"""A SLURM cluster of two nodes on this machine: Debian's daemons, with all that they write in one folder."""

import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager

from accelerate.utils.other import get_free_port

HOST = socket.gethostname()
NODES = (HOST, f"{HOST}-2")  # in this order also by name: a job's first node must be one that the network knows
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
GresTypes=gpu
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
NODE = "NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs={cores} Gres=gpu:1\n"


def is_here():
    """Whether the daemons are installed, this user may start them, and this machine's name leads to it."""
    try:
        socket.gethostbyname(HOST)
    except OSError:
        return False
    return os.geteuid() == 0 and all(map(shutil.which, ("slurmctld", "slurmd", "sbatch")))


@contextmanager
def cluster(folder):
    """What the environment needs for `sbatch` and its kin to find a cluster, which is there as long as the context."""
    for name in ("state", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir()
    text = CONFIGURATION.format(host=HOST, port=get_free_port(), folder=folder)
    text += "".join(NODE.format(name=name, port=get_free_port(), cores=os.cpu_count()) for name in NODES)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")  # SLURM counts a device; nobody opens it
    found = {"SLURM_CONF": str(folder / "slurm.conf")}
    environment = os.environ | found
    with ExitStack() as stack:
        for command in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in NODES)):
            daemon = stack.enter_context(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            stack.callback(daemon.terminate)
        _wait_for_nodes(environment)
        yield found


def run_job(command, environment, timeout=600, **options):
    """Submit a job and wait for its end; its state. `sbatch --wait` looks more and more seldom."""

    def told_by(*words, **options):
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True, **options).stdout

    job = told_by("sbatch", "--parsable", *map(str, command), **options).strip()
    for _ in range(2 * timeout):
        told = told_by("scontrol", "show", "job", job)
        state = re.search(r"JobState=(\w+)", told)[1]
        if state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            return state
        time.sleep(0.5)
    raise TimeoutError(told)


def _wait_for_nodes(environment):
    for _ in range(600):
        states = subprocess.run(["sinfo", "-h", "-N", "-o", "%t"], env=environment, capture_output=True, text=True)
        if states.stdout.split() == ["idle"] * len(NODES):
            return
        time.sleep(1)
    raise TimeoutError(f"SLURM's nodes did not become idle: {states.stdout!r} {states.stderr!r}")
