CREATE TABLE notes (id int PRIMARY KEY, a text);
INSERT INTO notes VALUES (1, 'a');
-- capture
DELETE FROM notes WHERE id = 1;
