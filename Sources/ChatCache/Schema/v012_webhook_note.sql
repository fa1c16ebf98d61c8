-- What a webhook named is called a note, as in the program.
ALTER TABLE due RENAME TO webhook_note;
