CREATE TABLE notes (id int PRIMARY KEY);
-- capture
SELECT pg_logical_emit_message(false, 'audit', 'outside of any transaction');
BEGIN;
INSERT INTO notes VALUES (1);
SELECT pg_logical_emit_message(true, 'audit', 'inside of one');
SELECT pg_logical_emit_message(true, '', '');
COMMIT;
