-- witness: none, it knows no publication
CREATE TABLE notes (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR TABLE notes WITH (publish = 'insert, update');
-- capture
BEGIN;
INSERT INTO notes VALUES (1, 'a');
UPDATE notes SET a = 'b';
DELETE FROM notes;
TRUNCATE notes;
COMMIT;
