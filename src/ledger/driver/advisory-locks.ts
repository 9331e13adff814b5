// Every advisory lock of Millrace. PostgreSQL has two separate spaces of keys: a single 64-bit number, or a class and a number of 32
// bits each. Locks belong to one database, and the application may take its own there, so most keys spell a name
// that starts with "Mi".
// A new lock gets its key here, and its SQL comes from the functions at the end. A test enforces both.

/** "Mill". One process migrates the schema at a time; the others wait. */
export const MIGRATION_LOCK = 0x4d69_6c6c;
/** "Milc". One process renumbers the transactions of a restored ledger at a time; the others wait. */
export const RESTORE_LOCK = 0x4d69_6c63;
/** "Mile". One process creates partitions of the history at a time; the others wait. */
export const PARTITION_LOCK = 0x4d69_6c65;
/** "MiKy". Of several processes that start on a new database, one creates the first API key; the others wait. */
export const FIRST_API_KEY_LOCK = 0x4d69_4b79;
/** "MiAd". While a transaction holds it, no other transaction adds to a queue that is nearly full; the others wait. */
export const ADMISSION_LOCK = 0x4d69_4164;
/** "MiAe". Like `ADMISSION_LOCK`, but for the limit on jobs of all other types. */
export const OTHER_ADMISSION_LOCK = 0x4d69_4165;
/** One promoter works at a time, so that its counts hold until it has written. A second one does not wait: it skips its round. */
export const PROMOTER_LOCK = 7_305_112;

/** "MiGa". One process frees the places of dead gates at a time. A second one does not wait: it frees none. */
export const GATE_SWEEP_LOCK = 0x4d69_4761;

/** Takes the SQL of an org. One transaction at a time writes joined children with dependencies for an org; the others wait. */
export const joinsLock = (org: string): string => `hashtextextended('millrace joins ' || ${org}, 0)`;

/** "mill". The class of the locks that workers hold while their sessions live. */
export const WORKER_LOCK_CLASS = 0x6d69_6c6c;
/** Takes the SQL of `workers.lock_no`. A worker's session holds the lock; the rescuer tries it to see whether the session is gone. */
export const workerLock = (lockNo: string): string => `${WORKER_LOCK_CLASS}, ${lockNo}`;

/** "MiDG". The class of the locks that processes which download hold while their sessions live. */
export const DOWNLOAD_GATE_LOCK_CLASS = 0x4d69_4447;
/** Takes the SQL of `download_gates.id`. */
export const gateLock = (id: string): string => `${DOWNLOAD_GATE_LOCK_CLASS}, ${id}`;

/** "MiKB". Takes the SQL of a bucket. A transaction shares the lock of each bucket that it writes idempotency keys of. */
export const keyBucketLock = (bucket: string): string => `${0x4d69_4b42}, ${bucket}`;

/** Waits for the lock and holds it until the transaction ends. */
export const waitForLock = (key: number | string): string => `pg_advisory_xact_lock(${key})`;
/** Waits for an exclusive holder only, and holds the lock together with others until the transaction ends. */
export const shareLock = (key: string): string => `pg_advisory_xact_lock_shared(${key})`;
/** True if the lock was free. The transaction holds it until it ends. */
export const tryLock = (key: number | string): string => `pg_try_advisory_xact_lock(${key})`;
/** True if the lock was free. The session holds it until it ends or releases the lock. */
export const trySessionLock = (key: string): string => `pg_try_advisory_lock(${key})`;
/** Waits for the lock. The session holds it until it ends. */
export const holdSessionLock = (key: string): string => `pg_advisory_lock(${key})`;
export const releaseSessionLock = (key: string): string => `pg_advisory_unlock(${key})`;
