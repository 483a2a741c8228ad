-- Version 1. Columns, units and the meaning of NULL: schema/README.md.
-- Plain types and no STRICT, so that the sqlite3 of an older system and any notebook can open the file.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_unix_ms INTEGER NOT NULL,
  closed INTEGER NOT NULL
);

CREATE TABLE attempts (
  attempt_id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES runs,
  attempt INTEGER NOT NULL,
  world_size INTEGER,
  first_received_unix_ms INTEGER NOT NULL,
  last_received_unix_ms INTEGER NOT NULL,
  UNIQUE (run_id, attempt)
);

CREATE TABLE ranks (
  attempt_id INTEGER NOT NULL REFERENCES attempts,
  rank INTEGER NOT NULL,
  host TEXT,
  ended INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  last_step INTEGER,
  last_received_unix_ms INTEGER,
  records INTEGER NOT NULL,
  last_wall_ms REAL,
  last_wall_state TEXT,
  PRIMARY KEY (attempt_id, rank)
) WITHOUT ROWID;

-- Beside ranks, not in it: a rank's last signs change with every step, its settings once.
CREATE TABLE rank_settings (
  attempt_id INTEGER NOT NULL REFERENCES attempts,
  rank INTEGER NOT NULL,
  settings TEXT NOT NULL,
  PRIMARY KEY (attempt_id, rank)
) WITHOUT ROWID;

CREATE TABLE stages (
  attempt_id INTEGER NOT NULL REFERENCES attempts,
  stage_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  parent_id INTEGER,
  kind TEXT NOT NULL,
  kind_from TEXT NOT NULL,
  parent_from TEXT NOT NULL,
  PRIMARY KEY (attempt_id, stage_id)
) WITHOUT ROWID;

CREATE TABLE layouts (
  layout_id INTEGER PRIMARY KEY,
  names BLOB NOT NULL
);

CREATE TABLE sources (
  source_key INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES runs,
  rank INTEGER NOT NULL,
  source TEXT NOT NULL,
  host TEXT,
  origin TEXT,
  pid INTEGER NOT NULL,
  started_unix_ms INTEGER NOT NULL,
  committed_seq INTEGER NOT NULL,
  base_offset INTEGER NOT NULL,
  attempt_offset INTEGER NOT NULL,
  attempt INTEGER,
  gone INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  duplicate INTEGER NOT NULL,
  conflict INTEGER NOT NULL,
  late INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  invalid_values INTEGER NOT NULL
);

CREATE TABLE steps (
  attempt_id INTEGER NOT NULL REFERENCES attempts,
  step INTEGER NOT NULL,
  state TEXT NOT NULL,
  present INTEGER NOT NULL,
  expected INTEGER NOT NULL,
  missing_count INTEGER NOT NULL,
  missing TEXT,
  wall_present INTEGER NOT NULL,
  wall_min_ms REAL,
  wall_median_ms REAL,
  wall_mean_ms REAL,
  wall_max_ms REAL,
  wall_min_rank INTEGER,
  slowest_rank INTEGER,
  near_tie INTEGER NOT NULL,
  clock TEXT NOT NULL,
  own_present INTEGER NOT NULL,
  own_min_ms REAL,
  own_median_ms REAL,
  own_mean_ms REAL,
  own_max_ms REAL,
  own_min_rank INTEGER,
  own_max_rank INTEGER,
  culprit_rank INTEGER,
  culprit_own_excess_ms REAL,
  culprit_stage_id INTEGER,
  culprit_stage_excess_ms REAL,
  invalid_values INTEGER NOT NULL,
  aside INTEGER NOT NULL,
  tags TEXT,
  first_received_unix_ms INTEGER NOT NULL,
  settled_unix_ms INTEGER,
  PRIMARY KEY (attempt_id, step)
) WITHOUT ROWID;

-- Finds the open steps after a restart and counts steps by state without reading the wide rows.
CREATE INDEX steps_by_state ON steps (attempt_id, state);

-- Both clocks in one row: the rows of a step are most of what a commit costs, and this halves them.
CREATE TABLE step_stages (
  attempt_id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  stage_id INTEGER NOT NULL,
  stream_present INTEGER,
  stream_min_ms REAL,
  stream_median_ms REAL,
  stream_mean_ms REAL,
  stream_max_ms REAL,
  stream_min_rank INTEGER,
  stream_max_rank INTEGER,
  stream_slowest_ms REAL,
  stream_slowest_state TEXT,
  stream_slowest_exclusive_ms REAL,
  stream_invalid INTEGER,
  stream_nulls INTEGER,
  host_present INTEGER,
  host_min_ms REAL,
  host_median_ms REAL,
  host_mean_ms REAL,
  host_max_ms REAL,
  host_min_rank INTEGER,
  host_max_rank INTEGER,
  host_slowest_ms REAL,
  host_slowest_state TEXT,
  host_slowest_exclusive_ms REAL,
  host_invalid INTEGER,
  host_nulls INTEGER,
  PRIMARY KEY (attempt_id, step, stage_id),
  FOREIGN KEY (attempt_id, step) REFERENCES steps,
  FOREIGN KEY (attempt_id, stage_id) REFERENCES stages
) WITHOUT ROWID;

-- With a rowid: the leaves of such a table hold a block whole, those of WITHOUT ROWID would cut it to a
-- quarter of a page and waste the rest of an overflow page.
CREATE TABLE blocks (
  attempt_id INTEGER NOT NULL,
  step INTEGER NOT NULL,
  block INTEGER NOT NULL,
  ranks INTEGER NOT NULL,
  records BLOB NOT NULL,
  PRIMARY KEY (attempt_id, step, block),
  FOREIGN KEY (attempt_id, step) REFERENCES steps
);

CREATE VIEW step_view AS
SELECT r.name AS run, a.attempt, s.step, s.state, s.present, s.expected, s.missing, s.slowest_rank,
       s.near_tie, s.wall_min_ms, s.wall_median_ms, s.wall_mean_ms, s.wall_max_ms, s.culprit_rank,
       c.name AS culprit_stage, s.culprit_own_excess_ms, s.culprit_stage_excess_ms, s.own_median_ms,
       s.own_mean_ms, s.own_max_ms, s.aside, s.tags, s.invalid_values, s.first_received_unix_ms,
       s.settled_unix_ms, s.attempt_id
FROM steps s
JOIN attempts a USING (attempt_id)
JOIN runs r USING (run_id)
LEFT JOIN stages c ON c.attempt_id = s.attempt_id AND c.stage_id = s.culprit_stage_id;

CREATE VIEW stage_view AS
SELECT r.name AS run, a.attempt, t.step, g.name AS stage, p.name AS parent, g.kind, t.stream_present,
       t.stream_min_ms, t.stream_median_ms, t.stream_mean_ms, t.stream_max_ms, t.stream_min_rank,
       t.stream_max_rank, t.stream_slowest_ms, t.stream_slowest_state,
       t.stream_slowest_exclusive_ms, t.stream_invalid, t.stream_nulls, t.host_present,
       t.host_min_ms, t.host_median_ms, t.host_mean_ms, t.host_max_ms, t.host_min_rank,
       t.host_max_rank, t.host_slowest_ms, t.host_slowest_state, t.host_slowest_exclusive_ms,
       t.host_invalid, t.host_nulls, t.attempt_id, t.stage_id
FROM step_stages t
JOIN stages g USING (attempt_id, stage_id)
JOIN attempts a USING (attempt_id)
JOIN runs r USING (run_id)
LEFT JOIN stages p ON p.attempt_id = g.attempt_id AND p.stage_id = g.parent_id;
