-- setup
CREATE TABLE accounts (
  account_id text    PRIMARY KEY,
  balance    bigint,
  deleted    boolean NOT NULL DEFAULT false,
  epoch      bigint  NOT NULL,
  last_seq   bigint  NOT NULL
);

-- apply: $1 the record's key, $2 balance, $3 whether the event deletes, $4 the header "epoch", $5 the
-- header "seq". The pair is compared: a new epoch wins whatever its version is.
INSERT INTO accounts AS mine (account_id, balance, deleted, epoch, last_seq) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (account_id) DO UPDATE
   SET balance = excluded.balance, deleted = excluded.deleted,
       epoch = excluded.epoch, last_seq = excluded.last_seq
 WHERE (mine.epoch, mine.last_seq) < (excluded.epoch, excluded.last_seq);
