CREATE TABLE notes (id int PRIMARY KEY, code text NOT NULL, a text);
CREATE UNIQUE INDEX notes_code ON notes (code);
ALTER TABLE notes REPLICA IDENTITY USING INDEX notes_code;
INSERT INTO notes VALUES (1, 'c-1', 'same');
-- capture
UPDATE notes SET code = 'c-2' WHERE id = 1;
DELETE FROM notes WHERE id = 1;
