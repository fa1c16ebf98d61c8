CREATE TABLE member_list (
  -- How much of a channel's list of members is known. No row: it was never shown whole, and no client asked for it.
  channel INTEGER PRIMARY KEY REFERENCES channel (id) ON DELETE CASCADE,
  -- Whether the rows of member were all the members when the list was last shown whole.
  is_whole INTEGER NOT NULL DEFAULT 0,
  -- How often an answer or a webhook told that members came or went, and the value of news that the rows include. The
  -- list is complete if is_whole is 1 and both are equal.
  news INTEGER NOT NULL DEFAULT 0,
  settled INTEGER NOT NULL DEFAULT 0,
  -- When the list was last shown whole (ms, without the time between runs).
  shown_at INTEGER NOT NULL DEFAULT 0,
  -- The log's sequence when anything but a listing last added or removed a member.
  changed_seq INTEGER NOT NULL DEFAULT 0,
  -- The last listing: its number, when it began, and the log's sequence and the news then.
  listing INTEGER NOT NULL DEFAULT 0,
  begun_at INTEGER NOT NULL DEFAULT 0,
  begun_seq INTEGER NOT NULL DEFAULT 0,
  begun_news INTEGER NOT NULL DEFAULT 0,
  -- The token of the upstream's next page, and the number of stored pages; NULL: no listing is under way.
  token TEXT,
  pages INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The listing that last showed this member.
ALTER TABLE member ADD COLUMN listing INTEGER NOT NULL DEFAULT 0;
-- The log's sequence when anything but a listing last changed this row: a listing that began earlier does not remove
-- the row.
ALTER TABLE member ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;

-- A channel's own answers show at most 100 members. If there are no more, one answer showed all rows.
INSERT INTO member_list (channel, is_whole)
SELECT id, 1
FROM channel
WHERE member_count BETWEEN 1 AND 100
  AND member_count = (SELECT count(*) FROM member WHERE member.channel = channel.id);
