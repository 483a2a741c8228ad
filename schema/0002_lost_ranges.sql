-- Which of a source's items were lost: [[first, last], ...] by sequence number.
ALTER TABLE sources ADD COLUMN lost TEXT;
