CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('calm', 'cross');
CREATE TYPE colour AS ENUM ('red', 'blue');
CREATE TABLE notes (id int PRIMARY KEY, mood shop.mood, moods shop.mood[], colour colour);
-- capture
INSERT INTO notes VALUES (1, 'calm', '{cross,calm}', 'blue');
INSERT INTO notes VALUES (2, 'cross', NULL, NULL);
