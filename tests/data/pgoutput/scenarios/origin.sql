CREATE TABLE notes (id int PRIMARY KEY);
SELECT pg_replication_origin_create('upstream one');
-- capture
SELECT pg_replication_origin_session_setup('upstream one');
BEGIN;
SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2026-01-02 03:04:05+00');
INSERT INTO notes VALUES (1);
COMMIT;
SELECT pg_replication_origin_session_reset();
INSERT INTO notes VALUES (2);
