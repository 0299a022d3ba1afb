-- witness: none, it knows no publication
CREATE TABLE notes (id int PRIMARY KEY);
CREATE TABLE tags (id int PRIMARY KEY);
CREATE PUBLICATION golden FOR TABLE notes;
-- capture
INSERT INTO tags VALUES (1);
BEGIN;
INSERT INTO tags VALUES (2);
INSERT INTO notes VALUES (1);
COMMIT;
