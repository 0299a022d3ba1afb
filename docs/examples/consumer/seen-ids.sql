-- setup
CREATE TABLE seen (
  event_id uuid        PRIMARY KEY,
  seen_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON seen (seen_at);
CREATE TABLE emails (recipient text NOT NULL, body text NOT NULL);

-- apply: $1 the header "id", $2 recipient, $3 body. One statement, so that the effect and the mark are
-- committed together. No row: seen before.
WITH first AS (
  INSERT INTO seen (event_id) VALUES ($1::text::uuid) ON CONFLICT DO NOTHING RETURNING event_id
)
INSERT INTO emails (recipient, body) SELECT $2, $3 FROM first;

-- prune: by time. $1 longer than the longest way back.
DELETE FROM seen WHERE seen_at < now() - $1::text::interval;
