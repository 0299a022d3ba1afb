CREATE TABLE notes (id int, a text, b text);
ALTER TABLE notes REPLICA IDENTITY FULL;
INSERT INTO notes VALUES (1, 'before', NULL);
-- capture
UPDATE notes SET a = 'after' WHERE id = 1;
