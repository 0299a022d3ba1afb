-- witness: none, its text output cannot carry these bytes
CREATE TABLE notes (id int PRIMARY KEY);
-- capture
SELECT pg_logical_emit_message(true, 'Prüfung', '\x00ff4100'::bytea);
