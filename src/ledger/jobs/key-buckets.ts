// INSERT … ON CONFLICT waits for a transaction that has written the same key and is still open. For a statement that serves many callers
// that is too long: the transaction may be a user's. So a transaction that writes keys announces them, and a shared statement leaves out
// keys that are announced.
//
// An announcement is a shared advisory lock on the bucket of a key, held until the transaction ends. Each org has 64 buckets. So a
// transaction with any number of keys takes at most as many entries of the lock table as a session may by default. Transactions that
// announce the same bucket do not wait for each other.
//
// A shared statement asks for the bucket exclusively, without waiting, and returns the lock in the same expression. It holds no lock
// while it writes, so that two shared statements do not meet here. A transaction may announce a key between the question and the
// insert. LOCK_WAIT_MS bounds the wait in this case, and the repeat finds the announcement.
//
// Measured: 28 us for the 64 keys of a statement, 19 us to announce as many (best of 15 each).
import { keyBucketLock, releaseSessionLock, shareLock, trySessionLock } from '../driver/advisory-locks.ts';

/** How long a shared statement waits for a key whose transaction announced it too late. */
const LOCK_WAIT_MS = 100;

const bucketText = (scope: string): string =>
  keyBucketLock(`(uuid_hash(i.org_id) << 6) | (hashtext(${scope} || chr(10) || i.key) & 63)`);

/** What a statement does about the keys that it writes: announce them, or leave out the announced ones. */
export type KeyMode = 'announce' | 'leave_held';

/** The column `is_held` of a row `i`. Takes the SQL of the scope of its key. */
export function heldText(mode: KeyMode, scope: string): string {
  const bucket = bucketText(scope);
  const held =
    mode === 'announce'
      ? `${shareLock(bucket)} IS NULL`
      : `CASE WHEN ${trySessionLock(bucket)} THEN NOT ${releaseSessionLock(bucket)} ELSE true END`;
  return `, CASE WHEN i.key IS NULL THEN false ELSE ${held} END AS is_held`;
}

/** A condition that holds once, before the first row is read, and bounds the waits of the statement. */
export const patienceText = (mode: KeyMode): string =>
  mode === 'announce' ? '' : `WHERE (SELECT set_config('lock_timeout', '${LOCK_WAIT_MS}', true)) IS NOT NULL`;
