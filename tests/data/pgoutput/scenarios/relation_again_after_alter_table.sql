CREATE TABLE notes (id int PRIMARY KEY, a text);
-- capture
INSERT INTO notes VALUES (1, 'a');
INSERT INTO notes VALUES (2, 'the relation is known');
ALTER TABLE notes ADD COLUMN b varchar(12) DEFAULT 'new';
INSERT INTO notes VALUES (3, 'a', 'b');
ALTER TABLE notes DROP COLUMN a;
ALTER TABLE notes RENAME COLUMN b TO "B";
INSERT INTO notes VALUES (4, 'only');
