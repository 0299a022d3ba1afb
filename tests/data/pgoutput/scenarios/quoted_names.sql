CREATE SCHEMA "My Schema";
CREATE TABLE "My Schema"."Order ""Box""" ("Id" int PRIMARY KEY, "größe, cm" text, "select" text);
-- capture
INSERT INTO "My Schema"."Order ""Box""" VALUES (1, 'x', 'y');
