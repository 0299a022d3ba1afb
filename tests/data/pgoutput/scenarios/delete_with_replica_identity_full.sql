CREATE TABLE notes (id int, a text, b text);
ALTER TABLE notes REPLICA IDENTITY FULL;
INSERT INTO notes VALUES (1, 'a', NULL);
-- capture
DELETE FROM notes WHERE id = 1;
