CREATE TABLE notes (id int PRIMARY KEY, body text, a text);
ALTER TABLE notes ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO notes VALUES (1, repeat('x', 3000), 'before');
-- capture
UPDATE notes SET a = 'after' WHERE id = 1;
UPDATE notes SET id = 2 WHERE id = 1;
