CREATE TABLE wide (
    c1 int PRIMARY KEY, c2 text, c3 text, c4 text, c5 text, c6 text, c7 text, c8 text, c9 text,
    c10 text, c11 text, c12 text, c13 text, c14 text, c15 text, c16 text, c17 text, c18 text,
    c19 text, c20 text);
-- capture
INSERT INTO wide VALUES (1, 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o',
    'p', 'q', NULL, 's', 't');
