CREATE TABLE outbox (id int PRIMARY KEY, aggregatetype text, aggregateid text, payload text);
-- capture
BEGIN;
INSERT INTO outbox VALUES (1, 'order', 'ORD-221', '{"version": 1}');
DELETE FROM outbox WHERE id = 1;
COMMIT;
