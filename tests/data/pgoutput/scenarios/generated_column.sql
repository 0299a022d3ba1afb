-- witness: none, it shows generated columns, a publication leaves them out
CREATE TABLE notes (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, a text);
-- capture
INSERT INTO notes VALUES (1, DEFAULT, 'a');
