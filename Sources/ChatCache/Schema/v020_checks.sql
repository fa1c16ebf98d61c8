-- To check a value against a list of more than two, SQLite opens a temporary table for each row that is written: a quarter
-- of what an accepted send cost the writer. Compared one by one the same values cost nothing. No row changes, so only the
-- text of the constraints is rewritten, as https://sqlite.org/lang_altertable.html#otheralter describes.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema
SET sql = replace(
  replace(
    replace(
      sql,
      'kind IN (''message'', ''file'', ''edit'', ''delete'', ''reaction'', ''read'')',
      'kind = ''message'' OR kind = ''file'' OR kind = ''edit'' OR kind = ''delete'' OR kind = ''reaction'' OR kind = ''read'''
    ),
    'state IN (''waiting'', ''held'', ''in_flight'', ''uncertain'', ''failed'', ''canceled'')',
    'state = ''waiting'' OR state = ''held'' OR state = ''in_flight'' OR state = ''uncertain'' OR state = ''failed'''
      || ' OR state = ''canceled'''
  ),
  'upload IN (''none'', ''needed'', ''running'', ''done'')',
  'upload = ''none'' OR upload = ''needed'' OR upload = ''running'' OR upload = ''done'''
)
WHERE type = 'table' AND name = 'outbox';

UPDATE sqlite_schema
SET sql = replace(
  sql,
  'ended_as IN (''succeeded'', ''dropped'', ''removed'', ''merged'')',
  'ended_as = ''succeeded'' OR ended_as = ''dropped'' OR ended_as = ''removed'' OR ended_as = ''merged'''
)
WHERE type = 'table' AND name = 'request';

UPDATE sqlite_schema
SET sql = replace(sql, 'kind IN (0, 1, 2)', 'kind = 0 OR kind = 1 OR kind = 2')
WHERE type = 'table' AND name = 'segment';

UPDATE sqlite_schema
SET sql = replace(
  replace(
    sql,
    'role IN ('''', ''operator'', ''none'')',
    'role = '''' OR role = ''operator'' OR role = ''none'''
  ),
  'hidden_state IN (''unhidden'', ''hidden_allow_auto_unhide'', ''hidden_prevent_auto_unhide'')',
  'hidden_state = ''unhidden'' OR hidden_state = ''hidden_allow_auto_unhide'''
    || ' OR hidden_state = ''hidden_prevent_auto_unhide'''
)
WHERE type = 'table' AND name = 'membership';

UPDATE sqlite_schema
SET sql = replace(
  sql,
  'kind IN (''newest'', ''missed'', ''message'', ''channel'')',
  'kind = ''newest'' OR kind = ''missed'' OR kind = ''message'' OR kind = ''channel'''
)
WHERE type = 'table' AND name = 'webhook_note';

UPDATE sqlite_schema
SET sql = replace(
  sql,
  'owes IN (''nothing'', ''answer'', ''success'')',
  'owes = ''nothing'' OR owes = ''answer'' OR owes = ''success'''
)
WHERE type = 'table' AND name = 'collection';

UPDATE sqlite_schema
SET sql = replace(
  sql,
  'phase IN (''connected'', ''stopped'', ''closed'')',
  'phase = ''connected'' OR phase = ''stopped'' OR phase = ''closed'''
)
WHERE type = 'table' AND name = 'user';

-- Ends the write access, and reads the tables' new texts.
PRAGMA writable_schema = RESET;
