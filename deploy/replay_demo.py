"""The demonstration that deploy/demo shows: a collector, one agent per rank, four recorded runs, a report."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from processes import Collector, spawn, stop, wait_until  # noqa: E402
from replay import replay  # noqa: E402

RUNS = ["run1_bs4", "run2_bs8", "run3_bs8", "run4_bs4"]
STEPS = 20  # of each recorded run
PAUSE_S = 0.03  # between two records: about 2.5 s a run
SAMPLE = ROOT / "tests" / "data" / "published_runs"
PROFILE = SAMPLE / "profile.toml"


def heading(text):
    print(f"\n==> {text}", flush=True)


def show(bin_dir, collector, *command):
    """Runs the client, printing the command as one would type it."""
    print("\n$ laggard " + " ".join(map(str, command)), flush=True)
    subprocess.run([bin_dir / "laggard", "--collector", collector.http, *command], check=True)


def run_agents(bin_dir, collector, run, spool, logs):
    """Replays one run through an agent per rank and shows the status screen half-way."""
    sources = sorted((SAMPLE / run).glob("rank*.jsonl"))
    spool.mkdir(parents=True)
    targets = [spool / source.name for source in sources]
    environment = {**os.environ, "LAGGARD_STATE_DIR": str(logs.parent / "agent-state")}
    agents = []
    try:
        for target in targets:
            with open(logs / f"agent-{run}-{target.stem}.log", "wb") as log:
                command = [bin_dir / "laggard-agent", "--collector", collector.ingest, "--run", run]
                command += ["--profile", PROFILE, target]
                agents.append(spawn(command, stdout=log, stderr=log, env=environment))
        half = len(targets) * STEPS // 2

        def on_line(written):
            if written == half:
                show(bin_dir, collector, "status", run)

        replay(sources, targets, seed=run, pause_s=PAUSE_S, on_line=on_line)
        wait_until(f"all {STEPS} steps of {run} complete", lambda: complete_steps(collector, run) == STEPS)
    finally:
        codes = [stop(agent) for agent in agents]
    if any(codes):
        raise RuntimeError(f"an agent of {run} failed: exit codes {codes}, see {logs}")


def complete_steps(collector, run):
    return collector.get(f"/api/v1/runs/{run}")["steps_by_state"]["complete"]


def demonstrate(bin_dir, home, keep):
    logs = home / "logs"
    logs.mkdir()
    # A collector that is to stay must not die with this program.
    launch = subprocess.Popen if keep else spawn
    collector = Collector(bin_dir, home / "data", logs / "laggardd.log", launch=launch)
    try:
        heading(f"A collector runs: ingest {collector.ingest}, HTTP {collector.http}")
        for run in RUNS:
            heading(f"{run}: four ranks write their records, an agent follows each")
            run_agents(bin_dir, collector, run, home / "records" / run, logs)
        heading("All four runs side by side")
        show(bin_dir, collector, "runs")
        show(bin_dir, collector, "report", *RUNS, "--profile", PROFILE)
    except BaseException:
        keep = False
        raise
    finally:
        code = None if keep else collector.stop()
    if code:
        raise RuntimeError(f"laggardd ended with {code}, see {logs}")
    where_next(bin_dir, home, collector, keep)


def where_next(bin_dir, home, collector, keep):
    heading("Where to look next")
    print(f"records, logs and database of this demonstration: {home}")
    if not keep:
        print(f"start the collector on it again:  {bin_dir}/laggardd --data {collector.data}")
        print("or run deploy/demo --keep, which leaves it running.")
        return
    client = f"{bin_dir}/laggard --collector {collector.http}"
    print(f"the API, as JSON:      {collector.http}/api/v1/runs")
    print(f"Prometheus text:       {collector.http}/metrics")
    print(f"one step, every rank:  {client} step run2_bs8 20")
    print(f"the steps of a run:    {client} steps run2_bs8")
    print(f"stop the collector:    kill {collector.process.pid}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True, help="the folder of the built programs")
    parser.add_argument("--keep", action="store_true", help="leave the collector running")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    home = Path(tempfile.mkdtemp(prefix="laggard-demo-"))
    try:
        demonstrate(options.bin.resolve(), home, options.keep)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except (RuntimeError, TimeoutError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: the demonstration failed: {error}\nits files are in {home}")


if __name__ == "__main__":
    main()
