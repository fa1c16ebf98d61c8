-- Files are hashed with BLAKE2b. The hashes of an earlier program are unknown (empty): of files, and of requests that had
-- one or whose content is not known any more. A request that is repeated is then recognized by its id alone.
UPDATE upload SET hash = x'';
UPDATE request
SET content_hash = x''
WHERE ended_at IS NOT NULL
  OR (user, request_id) IN (SELECT user, request_id FROM outbox WHERE kind = 'file');

-- Only comments in the tables' texts are rewritten, as https://sqlite.org/lang_altertable.html#otheralter describes.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema
SET sql = replace(sql, 'SHA-256 of its bytes.', 'BLAKE2b of its bytes; empty: unknown.')
WHERE type = 'table' AND name = 'upload';

UPDATE sqlite_schema
SET sql = replace(
  sql,
  'Of a message collection: the channel.',
  'Of a message collection: the channel; NULL after everything was cleared, until the view begins anew.'
)
WHERE type = 'table' AND name = 'collection';

-- Ends the write access, and reads the tables' new texts.
PRAGMA writable_schema = RESET;
