CREATE TABLE notes (id int PRIMARY KEY, a text, b text, c int);
-- capture
INSERT INTO notes VALUES (1, NULL, '', NULL), (2, 'Zoë’s ''quoted'' 名前', E'two\nlines', -3);
