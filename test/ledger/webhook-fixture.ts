/** Targets and their deliveries, for tests that look at the tables themselves. */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Dispatched, dispatchEvents } from '../../src/ledger/webhooks/dispatch-events.ts';
import { until } from '../until.ts';
import type { TestLedger } from './fixture.ts';

export type DeliveryRow = {
  id: string;
  webhook_id: string;
  job_id: string | null;
  n: number | null;
  index: number;
  event: string;
  state: 'queued' | 'live' | 'delivered' | 'failed';
  attempts: number;
  data: Record<string, unknown>;
};

export type LaneRow = {
  due_at: Date | null;
  live_delivery: string | null;
  live_job: string | null;
  failures: number;
  failing_since: Date | null;
  next_at: Date | null;
  delivered_total: number;
  attempts_total: number;
  failures_total: number;
};

export class TestWebhooks {
  readonly #ledger: TestLedger;

  constructor(ledger: TestLedger) {
    this.#ledger = ledger;
  }

  async register(orgId: string, { url = 'https://example.com/hook', events = ['*'] as readonly string[] } = {}): Promise<string> {
    const id = randomUUID();
    const text = `WITH made AS (
      INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at)
      VALUES ($1, $2, 'webhook', $3, $4, millrace.clock(), millrace.clock())
    ), lane AS (INSERT INTO millrace.webhook_lanes (webhook_id, org_id, origin)
      VALUES ($1, $2, millrace.origin_of('webhook', $3)))
    INSERT INTO millrace.webhook_secrets (org_id, webhook_id, n, secret, created_at) VALUES ($2, $1, 1, $5, millrace.clock())`;
    const own = `${url}${url.includes('?') ? '&' : '?'}w=${id.slice(0, 8)}`;
    await this.sql(text, [id, orgId, own, [...events].sort(), randomBytes(24)]);
    return id;
  }

  /** Every round until nothing is left below the horizon; other databases of the server hold it back, too. */
  async dispatch(): Promise<Dispatched[]> {
    const rounds: Dispatched[] = [];
    const left = `SELECT EXISTS (SELECT FROM millrace.records
      WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'webhooks')) AS left`;
    await until('every event is dispatched', async () => {
      const isLeft = (await this.sql<{ left: boolean }>(left))[0]?.left === true;
      if (isLeft) rounds.push(await dispatchEvents(this.#ledger.db.maintenance));
      return !isLeft;
    });
    return rounds;
  }

  /** In the order of their lane. */
  deliveries(where: { webhookId?: string; orgId?: string }): Promise<DeliveryRow[]> {
    const text = `SELECT id, webhook_id, job_id, n, index, event, state, attempts, body::json->'data' AS data
      FROM millrace.webhook_deliveries
      WHERE ($1::uuid IS NULL OR webhook_id = $1) AND ($2::uuid IS NULL OR org_id = $2) ORDER BY position`;
    return this.sql(text, [where.webhookId ?? null, where.orgId ?? null]);
  }

  async events(webhookId: string): Promise<string[]> {
    return (await this.deliveries({ webhookId })).map(({ event }) => event);
  }

  async lane(webhookId: string): Promise<LaneRow> {
    const [row] = await this.sql<LaneRow>('SELECT * FROM millrace.webhook_lanes WHERE webhook_id = $1', [webhookId]);
    return row as LaneRow;
  }

  async callbackOf(orgId: string): Promise<string | null> {
    const text = `SELECT id FROM millrace.webhooks WHERE org_id = $1 AND kind = 'callback'`;
    return (await this.sql<{ id: string }>(text, [orgId]))[0]?.id ?? null;
  }

  async sql<Row>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.#ledger.db.api.query(text, values)).rows as Row[];
  }
}
