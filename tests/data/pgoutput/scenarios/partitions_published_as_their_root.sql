-- witness: none, it knows no publication
CREATE TABLE notes (id int, day date, a text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE notes_january (a text, day date NOT NULL, id int NOT NULL);
ALTER TABLE notes ATTACH PARTITION notes_january FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE PUBLICATION golden FOR TABLE notes WITH (publish_via_partition_root = true);
-- capture
INSERT INTO notes VALUES (1, '2026-01-05', 'columns in the order of the root');
