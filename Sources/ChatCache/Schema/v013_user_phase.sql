-- Whether a user is synced is called a phase, as in the program.
ALTER TABLE user RENAME COLUMN standing TO phase;
