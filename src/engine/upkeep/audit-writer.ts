import type { AuditedJobs } from '../../ledger/audit/audit-page.ts';
import { projectAudit } from '../../ledger/audit/project-audit.ts';
import { pruneAudit } from '../../ledger/audit/prune-audit.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { Loop, LoopGroup } from '../loop.ts';

/** How soon an event is in the trail while nothing else delays it. */
const IDLE_MS = 500;
/**
 * Between pages the writer rests three times as long as a page took, so that jobs keep most of the machine in a burst. A trail that is
 * further behind than this gets no rest.
 */
const REST = 3;
const PATIENCE_MS = 10_000;
const PRUNE_LIMIT = 5_000;
const PRUNE_EVERY_MS = 3_600_000;
const PRUNE_AGAIN_MS = 200;
const FIRST_WITHIN_MS = 60_000;
const DEFAULT_RETENTION_MS = 365 * 86_400_000;

export type AuditOptions = {
  /** The jobs whose own events are in the trail. Default: those with one of the five categories. */
  readonly jobs?: AuditedJobs;
  /** How long a row is kept. Default: 365 days. */
  readonly retentionMs?: number;
};

export type AuditWriterParams = AuditOptions & { readonly database: Database; readonly events: EventHub };

/**
 * Adds what happened to the audit trail, in commit order, and removes rows past their retention. Every process has one, and only one at a
 * time does the round.
 */
export class AuditWriter extends LoopGroup {
  readonly #params: AuditWriterParams;
  protected readonly loops: readonly Loop[];

  constructor(params: AuditWriterParams) {
    super();
    this.#params = params;
    const { events } = params;
    this.loops = [
      new Loop({ name: 'audit writer', round: () => this.round(), events, firstWithinMs: IDLE_MS }),
      new Loop({ name: 'audit pruner', round: () => this.#prune(), events, firstWithinMs: FIRST_WITHIN_MS }),
    ];
  }

  async round(): Promise<number> {
    const { database, events, jobs = 'governed' } = this.#params;
    const startedMs = performance.now();
    const projected = await projectAudit(database.maintenance, jobs);
    if (projected.kind === 'busy') return IDLE_MS;
    for (const { seq, ...item } of projected.setAside) events.emit('setAside', { ...item, jobSeq: seq });
    if (!projected.hasMore) return IDLE_MS;
    return projected.lagMs > PATIENCE_MS ? 0 : (performance.now() - startedMs) * REST;
  }

  async #prune(): Promise<number> {
    const { database, retentionMs = DEFAULT_RETENTION_MS } = this.#params;
    const pruned = await pruneAudit(database.maintenance, { retentionMs, limit: PRUNE_LIMIT });
    return pruned > 0 ? PRUNE_AGAIN_MS : PRUNE_EVERY_MS;
  }
}
