CREATE TABLE notes (id int, part text, a text, PRIMARY KEY (id, part));
INSERT INTO notes VALUES (1, 'x', 'same');
-- capture
UPDATE notes SET id = 2 WHERE id = 1;
