-- witness: none, it names the domain, pgoutput names the type below it
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE notes (id int PRIMARY KEY, done percent);
-- capture
INSERT INTO notes VALUES (1, 50);
