import { type Queryable, run, sqlStateOf, statement } from './statement.ts';

const PREPARE = statement('prepare_reader', 'SELECT millrace.prepare_reader() AS "isReady"');

const UNDEFINED_FUNCTION = '42883';

/** Creates the role for reads of one org if this user may, and gives it its rights. Returns whether row-level security is in force. */
export async function prepareReader(db: Queryable): Promise<boolean> {
  try {
    return (await run<{ isReady: boolean }>(db, PREPARE))[0]?.isReady === true;
  } catch (error) {
    // A test migrates to an older version.
    if (sqlStateOf(error) === UNDEFINED_FUNCTION) return false;
    throw error;
  }
}

/** What to tell an operator if `prepareReader` returns false. */
export const NO_SECOND_LOCK =
  'Row-level security is off: the database user may not use the role millrace_reader. Let an administrator of the database run CREATE ROLE millrace_reader NOLOGIN (if it is missing) and GRANT millrace_reader TO that_user, and restart.';
