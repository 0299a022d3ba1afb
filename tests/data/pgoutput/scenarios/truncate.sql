CREATE TABLE notes (id int PRIMARY KEY);
CREATE TABLE tags (id int PRIMARY KEY);
-- capture
TRUNCATE notes;
TRUNCATE notes, tags;
