import type { Engine } from '../../engine/engine.ts';
import { sealOf } from '../../ledger/driver/seal.ts';

/** Names of workers and hosts for callers of the API. They tell two workers apart, and hide the host and process in their names. */
export type PublicNames = { workerOf(name: string): string; hostOf(host: string): string };

export async function publicNames(engine: Pick<Engine, 'database'>): Promise<PublicNames> {
  const seal = await sealOf(engine.database.api);
  return {
    workerOf: (name) => `worker-${seal.pseudonymOf(`worker ${name}`)}`,
    hostOf: (host) => `host-${seal.pseudonymOf(`host ${host}`)}`,
  };
}
