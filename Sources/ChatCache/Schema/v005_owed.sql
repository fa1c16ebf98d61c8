-- What a view is owed, over starts: its first answer; or, once it was told that the answer could not be had and will be
-- tried again, one success (B16).
ALTER TABLE collection ADD COLUMN owes TEXT NOT NULL DEFAULT 'nothing' CHECK (owes IN ('nothing', 'answer', 'success'));

-- How often it was noted: what is noted again while it is looked into is a new note, and stays (B34).
ALTER TABLE due ADD COLUMN noted INTEGER NOT NULL DEFAULT 1;
