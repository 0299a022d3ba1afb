-- since: 18
CREATE TABLE notes (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, a text);
CREATE PUBLICATION golden FOR TABLE notes WITH (publish_generated_columns = stored);
-- capture
INSERT INTO notes VALUES (1, DEFAULT, 'a');
