#!/usr/bin/env python3
"""Writes report_published.json: what the collector must answer for the four published runs, computed here
from their rank files by the definitions of the published summary and by none of the project's own code."""
import json
import pathlib
import statistics
import tomllib
from collections import Counter

HERE = pathlib.Path(__file__).parent
DATA = HERE.parents[1] / "data" / "published_runs"
RUNS = ["run1_bs4", "run2_bs8", "run3_bs8", "run4_bs4"]
CLOCKS = {"stream": "cuda_stream_ms", "host": "cpu_call_ms"}
PROFILE = tomllib.loads((DATA / "profile.toml").read_text())
PARENTS = PROFILE["parents"]


def depth(stage):
    return depth(PARENTS[stage]) + 1 if stage in PARENTS else 0


def kind(stage):
    return PROFILE["kinds"].get(stage, "input" if "fetch" in stage else "work")


def mean_s(values):
    return sum(values) / len(values) / 1000


def stage_rows(slowest, clock):
    records = [record[CLOCKS[clock]] for record in slowest]
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = {}
    for name in names:
        rows[name] = row(name, PARENTS.get(name), clock, False, [record.get(name) for record in records])
        children = [child for child in names if PARENTS.get(child) == name]
        if children:
            rest = [record[name] - sum(record.get(child, 0) for child in children) for record in records]
            other = PROFILE["exclusive_names"].get(name, name + "_other")
            rows[other] = row(other, name, clock, True, rest)
    ordered = [rows.pop(name) for name in PROFILE["stage_order"] if name in rows]
    return ordered + list(rows.values())


def row(name, parent, clock, exclusive, values):
    mean = mean_s([value or 0 for value in values])
    return {"stage": name, "parent": parent, "depth": depth(parent) + 1 if parent else 0,
            "kind": "work" if exclusive else kind(name), "exclusive": exclusive, "clock": clock,
            "mean_ms": mean * 1000, "present": sum(value is not None for value in values), "of": len(values),
            "overlaps": sum(exclusive and value < 0 for value in values), "mean_s": mean}


def report_of(run):
    config, updates = None, []
    for file in sorted((DATA / run).glob("rank*.jsonl")):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "update":
                updates.append(record)
            else:
                config = config or record
    steps = sorted({record["step"] for record in updates})
    # max() keeps the first of a tie, and the files come by rank: the lowest rank wins.
    slowest = [max((r for r in updates if r["step"] == step), key=lambda r: r["wall_ms"]) for step in steps]
    walls = [record["wall_ms"] for record in slowest]
    ranks = sorted({record["rank"] for record in updates})
    rank_walls = [{"rank": rank, "mean_s": mean_s([r["wall_ms"] for r in updates if r["rank"] == rank]),
                   "steps": len(steps)} for rank in ranks]
    sums, histograms = Counter(), {"frame_histogram": Counter(), "input_shapes": Counter()}
    for record in updates:
        sums.update(record["counts"])
        for name, bins in histograms.items():
            bins.update(record[name])
    ratios = []
    for ratio in PROFILE["ratios"]:
        share = sums[ratio["numerator"]] / sums[ratio["denominator"]]
        ratios.append({"name": ratio["name"], "percent": 100 * (1 - share if ratio.get("complement") else share)})
    settings = {key: value for key, value in config.items() if key not in ("type", "rank", "world_size")}
    return {"run": run, "attempt": 1, "world_size": config["world_size"], "ranks": ranks, "never_reported": [],
            "window": {"from": config["first_step"], "to": config["last_step"], "chosen": "configured"},
            "steps": len(steps),
            "left_out": {"aside": [], "incomplete": [], "no_wall": [], "before": 0, "after": 0},
            "max_rank_wall_s": mean_s(walls), "largest_rank_mean_s": max(w["mean_s"] for w in rank_walls),
            "median_wall_s": statistics.median(walls) / 1000, "all_steps_mean_s": mean_s(walls),
            "all_steps_median_s": statistics.median(walls) / 1000, "global_batch": config["global_batch"],
            "samples_per_s": config["global_batch"] / mean_s(walls), "rank_walls": rank_walls,
            "stages": stage_rows(slowest, "stream") + stage_rows(slowest, "host"), "ratios": ratios,
            "count_sums": dict(sorted(sums.items())),
            "histograms": {name: dict(sorted(bins.items())) for name, bins in histograms.items()},
            "settings": settings, "settings_disagree": {}, "invalid_values": 0, "warnings": []}


answer = {"match": {"checked": True, "pass": True,
                    "compared": ["sample indices", "token/frame counts", "settings"], "mismatches": []},
          "runs": [report_of(run) for run in RUNS],
          "notes": ["Nested rows overlap: a stage contains its children, so rows of different depth must not be "
                    "added up.", "Stream time includes stalls of the stream and waiting for other ranks."]}
(HERE / "report_published.json").write_text(json.dumps({"POST /api/v1/report": answer}, indent=1) + "\n")
