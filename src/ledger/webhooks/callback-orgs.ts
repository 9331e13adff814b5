import { randomBytes } from 'node:crypto';
import { WEBHOOK_SECRET_BYTES } from '../../core/webhook-signature.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const ENSURE = statement(
  'ensure_callback_org',
  `INSERT INTO millrace.callback_orgs (org_id, secret, created_at) VALUES ($1::uuid, $2::bytea, millrace.clock())
   ON CONFLICT DO NOTHING`,
);

/** Records that jobs of the org may name callbacks, and gives the org a signing secret if it has none. */
export async function ensureCallbackOrg(db: Queryable, orgId: string): Promise<void> {
  await run(db, ENSURE, [orgId, randomBytes(WEBHOOK_SECRET_BYTES)]);
}

/** The orgs that this process knows to be recorded. It records each org once. */
export class CallbackOrgs {
  readonly #known = new Set<string>();
  readonly #noting = new Map<string, Promise<void>>();
  readonly #db: Queryable;

  constructor(db: Queryable) {
    this.#db = db;
  }

  has(orgId: string): boolean {
    return this.#known.has(orgId);
  }

  /** Must be committed before a job of the org with a callback is written. */
  async ensure(orgId: string): Promise<void> {
    if (this.#known.has(orgId)) return;
    const noting = this.#noting.get(orgId) ?? this.#note(orgId);
    this.#noting.set(orgId, noting);
    await noting;
  }

  async #note(orgId: string): Promise<void> {
    try {
      await ensureCallbackOrg(this.#db, orgId);
      this.#known.add(orgId);
    } finally {
      this.#noting.delete(orgId);
    }
  }
}
