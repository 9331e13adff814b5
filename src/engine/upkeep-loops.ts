import type { PolicyCache } from '../ledger/jobs/intern-policies.ts';
import type { ArtifactStorage } from './artifacts/artifact-storage.ts';
import { createArtifactSweeper } from './artifacts/artifact-sweeper.ts';
import type { EngineOptions } from './engine-options.ts';
import type { EventHub } from './events.ts';
import type { Service } from './loop.ts';
import { AuditWriter } from './upkeep/audit-writer.ts';
import { Pruner } from './upkeep/pruner.ts';
import { QueueWatch } from './upkeep/queue-watch.ts';
import { Rescuer } from './upkeep/rescuer.ts';
import { RollupWriter } from './upkeep/rollup-writer.ts';
import { SessionWatch } from './upkeep/session-watch.ts';

type Parts = {
  readonly events: EventHub;
  readonly policies: PolicyCache;
  readonly artifacts: () => ArtifactStorage | null;
  onReleased(): void;
  onReady(): void;
};

/** The loops that nothing wakes: they look from time to time. */
export function upkeepLoops<E>(options: EngineOptions<E>, { events, policies, artifacts, onReleased, onReady }: Parts): Service[] {
  const { database, expireEveryMs, revokedKeysMs } = options;
  return [
    new Rescuer({ database, policies, events, onReleased, onRescued: onReady }),
    new Pruner({ database, events, onReleased, expireEveryMs, revokedKeysMs }),
    new RollupWriter({ database, events }),
    new AuditWriter({ database, events, ...options.audit }),
    new SessionWatch({ database, events }),
    new QueueWatch({ database, events }),
    createArtifactSweeper({ database, events, storage: artifacts }),
  ];
}
