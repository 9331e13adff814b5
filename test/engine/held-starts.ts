/** Starts of attempts that wait in the database until a test lets them go. Claims and cancels do not wait, and no row is locked. */
import pg from 'pg';
import { onTestFinished } from 'vitest';
import type { TestLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const KEY = 7_201;

// Fires before the statement has looked at any row; a claim does not write the column.
const INSTALL = `
CREATE OR REPLACE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_advisory_xact_lock_shared(${KEY}); RETURN NULL; END$$;
CREATE OR REPLACE TRIGGER starts_wait_for_test BEFORE UPDATE OF started_lease_seq ON millrace.jobs
  FOR EACH STATEMENT EXECUTE FUNCTION wait_for_test()`;

const WAITING = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'`;

export class HeldStarts {
  readonly #ledger: TestLedger;
  readonly #holder: pg.Client;
  #isHeld = true;

  private constructor(ledger: TestLedger) {
    this.#ledger = ledger;
    this.#holder = new pg.Client({ connectionString: ledger.db.url });
  }

  /** From here on until the release, or the end of the test. */
  static async hold(ledger: TestLedger): Promise<HeldStarts> {
    await ledger.db.maintenance.query(INSTALL);
    const starts = new HeldStarts(ledger);
    await starts.#holder.connect();
    await starts.#holder.query('SELECT pg_advisory_lock($1)', [KEY]);
    onTestFinished(() => starts.release());
    return starts;
  }

  async release(): Promise<void> {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    await this.#holder.end();
  }

  async arrived(): Promise<void> {
    await until(
      'a start waits for the lock',
      () => this.#waiting(),
      (count) => count > 0,
    );
  }

  /** Ends the statements that wait: their senders are told that they failed, if they still live. */
  async fail(): Promise<void> {
    await this.#ledger.db.maintenance.query(`SELECT pg_cancel_backend(pid) ${WAITING}`);
    await until('no start waits for the lock', () => this.#waiting(), 0);
  }

  async #waiting(): Promise<number> {
    const { rows } = await this.#ledger.db.maintenance.query(`SELECT count(*)::int4 AS starts ${WAITING}`);
    return rows[0].starts;
  }
}
