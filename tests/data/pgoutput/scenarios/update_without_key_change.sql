CREATE TABLE notes (id int PRIMARY KEY, a text, b text);
INSERT INTO notes VALUES (1, 'before', NULL);
-- capture
UPDATE notes SET a = 'after' WHERE id = 1;
