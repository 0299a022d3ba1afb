-- setup
CREATE TABLE shipments (
  order_id   text        PRIMARY KEY,
  status     text,
  deleted    boolean     NOT NULL DEFAULT false,
  last_seq   bigint      NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE VIEW live_shipments AS SELECT order_id, status FROM shipments WHERE NOT deleted;

-- apply: $1 the record's key, $2 status, $3 whether the event deletes, $4 the header "seq".
-- No row changed: a repeat or an older event.
INSERT INTO shipments AS mine (order_id, status, deleted, last_seq) VALUES ($1, $2, $3, $4)
ON CONFLICT (order_id) DO UPDATE
   SET status = excluded.status, deleted = excluded.deleted, last_seq = excluded.last_seq,
       changed_at = now()
 WHERE mine.last_seq < excluded.last_seq;

-- forget: markers of what was deleted long ago. $1 how long a repeat can be on its way.
DELETE FROM shipments WHERE deleted AND changed_at < now() - $1::text::interval;
