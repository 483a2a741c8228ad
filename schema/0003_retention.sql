-- Version 3: what retention has taken, and runs that are being deleted.

ALTER TABLE attempts ADD COLUMN records_from INTEGER;
ALTER TABLE attempts ADD COLUMN summaries_from INTEGER;

-- Attempts whose run was deleted, until the last of their steps has gone.
CREATE TABLE deletions (
  attempt_id INTEGER PRIMARY KEY
);
