CREATE TABLE notes (id int PRIMARY KEY, a text);
-- capture
BEGIN;
INSERT INTO notes VALUES (1, 'kept');
SAVEPOINT s;
INSERT INTO notes VALUES (2, 'rolled back');
ROLLBACK TO SAVEPOINT s;
INSERT INTO notes VALUES (3, 'kept');
COMMIT;
BEGIN;
INSERT INTO notes VALUES (4, 'rolled back');
ROLLBACK;
