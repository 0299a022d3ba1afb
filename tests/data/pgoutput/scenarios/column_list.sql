-- witness: none, it knows no publication
-- since: 15
CREATE TABLE notes (id int PRIMARY KEY, hidden text, a text);
CREATE PUBLICATION golden FOR TABLE notes (a, id);
-- capture
INSERT INTO notes VALUES (1, 'hidden', 'a');
