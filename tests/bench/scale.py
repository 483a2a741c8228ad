#!/usr/bin/env python3
"""A job of 10,000 ranks at one step a second beside a collector, load and collector on this machine: what gets lost,
how long live answers take, what it costs. usage: scale.py BIN_DIR [RANKS [CONNECTIONS [SECONDS]]]"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from processes import Collector, cpu_s, memory_bytes, spawn  # noqa: E402

MIB = 1 << 20
LIVE = {"status of the run": "/api/v1/runs/bench", "runs": "/api/v1/runs", "scrape": "/metrics"}


def percentile(values, p):
    return sorted(values)[int(p * (len(values) - 1))] if values else float("nan")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    bin_dir = Path(sys.argv[1])
    ranks, connections, seconds = (int(value) for value in (sys.argv[2:] + ["10000", "2000", "120"][len(sys.argv) - 2 :]))
    home = Path(tempfile.mkdtemp(prefix="laggard-scale-", dir=os.environ.get("LAGGARD_BENCH_DIR")))
    collector = Collector(bin_dir, home / "data", home / "log")
    load = spawn(
        [bin_dir / "scale_load", collector.ingest, ranks, connections, seconds], stdout=subprocess.PIPE, text=True
    )
    began = time.monotonic()
    load.stdout.readline()
    print(f"{ranks} ranks over {connections} connections: all welcomed after {time.monotonic() - began:.1f} s")
    times = {name: [] for name in LIVE}
    cpu, load_cpu, started = cpu_s(collector.process.pid), cpu_s(load.pid), time.monotonic()
    load_used = 0.0
    while load.poll() is None and time.monotonic() < started + seconds:
        load_used = cpu_s(load.pid) - load_cpu  # one that has ended cannot be asked
        for name, path in LIVE.items():
            asked = time.monotonic()
            collector.text(path)
            times[name].append((time.monotonic() - asked) * 1000)
        time.sleep(0.5)
    elapsed = time.monotonic() - started
    cpu = cpu_s(collector.process.pid) - cpu
    result = json.loads(load.stdout.readline())
    status = collector.get("/api/v1/runs/bench")
    print(f"records delivered {result['records']} of {ranks * seconds}, not acknowledged {result['unacknowledged']}")
    print(
        f"from record to durable ack: median {result['ack_ms_median']} ms, p99 {result['ack_ms_p99']} ms, "
        f"max {result['ack_ms_max']} ms"
    )
    for name, values in times.items():
        print(
            f"{name}: median {percentile(values, 0.5):.1f} ms, p99 {percentile(values, 0.99):.1f} ms, "
            f"max {max(values):.1f} ms over {len(values)} answers"
        )
    print(f"collector: {cpu / elapsed:.2f} of a core, load generator: {load_used / elapsed:.2f} of a core")
    print(
        f"collector's memory: {memory_bytes(collector.process.pid) / MIB:.0f} MiB, "
        f"at most {memory_bytes(collector.process.pid, 'VmHWM') / MIB:.0f} MiB"
    )
    print(f"steps {status['steps_by_state']}, delivery {status['delivery']}")
    collector.stop()
    database = sqlite3.connect(home / "data" / "laggard.db")
    stored = database.execute("SELECT sum(ranks) FROM blocks").fetchone()[0]
    print(f"records in the database: {stored}; size {(home / 'data' / 'laggard.db').stat().st_size / MIB:.0f} MiB")
    database.close()
    subprocess.run(["rm", "-rf", str(home)], check=True)
    sys.exit(0 if stored == ranks * seconds and load.returncode == 0 else 1)


if __name__ == "__main__":
    main()
