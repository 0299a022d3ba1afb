CREATE SCHEMA shop;
CREATE TABLE shop.orders (
    id bigint PRIMARY KEY, customer text NOT NULL, note varchar(40), paid boolean,
    total numeric(10, 2), weight double precision, token uuid, body jsonb, raw bytea,
    placed timestamptz);
-- capture
SET TIME ZONE 'UTC';
INSERT INTO shop.orders VALUES
    (7, 'Ada', 'fragile', true, 12.50, 0.25, '0b6f36f4-5a0c-4f3a-9b0e-0f3f3a3f7c11',
     '{"a": [1, null]}', '\x00ff41', '2026-01-02 03:04:05.678+00');
