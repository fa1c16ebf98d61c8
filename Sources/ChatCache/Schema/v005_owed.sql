-- The event that a view still has to tell, over restarts: its first answer or, after it told that the answer failed and
-- will be tried again, a success (B16).
ALTER TABLE collection ADD COLUMN owes TEXT NOT NULL DEFAULT 'nothing' CHECK (owes IN ('nothing', 'answer', 'success'));

-- How often it was noted: a note that is stored again while the worker handles it is a new one, and stays (B34).
ALTER TABLE due ADD COLUMN noted INTEGER NOT NULL DEFAULT 1;
