-- setup
CREATE TABLE stock (
  sku      text   PRIMARY KEY,
  quantity bigint NOT NULL DEFAULT 0,
  last_seq bigint NOT NULL DEFAULT 0
);
CREATE TABLE parked (
  sku       text        NOT NULL,
  seq       bigint      NOT NULL,
  quantity  bigint      NOT NULL,
  parked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (sku, seq)
);
-- What is next in line for one key, for as long as there is something.
CREATE FUNCTION drain(of_sku text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next parked;
BEGIN
  LOOP
    DELETE FROM parked USING stock
     WHERE stock.sku = of_sku AND parked.sku = of_sku AND parked.seq = stock.last_seq + 1
    RETURNING parked.* INTO next;
    EXIT WHEN NOT FOUND;
    UPDATE stock SET quantity = next.quantity, last_seq = next.seq WHERE sku = of_sku;
  END LOOP;
END $$;
CREATE FUNCTION receive(event_sku text, event_seq bigint, event_quantity bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  mine stock;
BEGIN
  INSERT INTO stock (sku) VALUES (event_sku) ON CONFLICT DO NOTHING;
  SELECT * INTO mine FROM stock WHERE sku = event_sku FOR UPDATE;
  IF event_seq <= mine.last_seq THEN
    RETURN 'repeated';
  END IF;
  INSERT INTO parked (sku, seq, quantity) VALUES (event_sku, event_seq, event_quantity)
  ON CONFLICT DO NOTHING;
  PERFORM drain(event_sku);
  SELECT * INTO mine FROM stock WHERE sku = event_sku;
  RETURN CASE WHEN event_seq <= mine.last_seq THEN 'applied' ELSE 'parked' END;
END $$;
CREATE FUNCTION give_up_gap(of_sku text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE stock SET last_seq = (SELECT min(seq) - 1 FROM parked WHERE parked.sku = of_sku)
   WHERE sku = of_sku AND EXISTS (SELECT FROM parked WHERE parked.sku = of_sku);
  PERFORM drain(of_sku);
END $$;

-- apply: $1 the record's key, $2 the header "seq", $3 quantity. Says what became of the event.
SELECT receive($1, $2, $3);

-- alert: what is missing, and since when something waits for it. $1 how long is too long.
SELECT stock.sku, stock.last_seq + 1 AS missing_seq, min(parked.parked_at) AS since
  FROM stock JOIN parked USING (sku)
 GROUP BY stock.sku, stock.last_seq
HAVING min(parked.parked_at) < now() - $1::text::interval;

-- give_up: somebody has decided that the missing event will not come. $1 the key.
SELECT give_up_gap($1);
