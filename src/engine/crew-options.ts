import { hostname } from 'node:os';
import { DEFAULT_MAX_RESULT_BYTES } from '../core/payload.ts';
import type { EngineOptions } from './engine-options.ts';
import type { CrewParts } from './work/crews.ts';
import { reserveOf } from './work/slot-reserve.ts';

/** The options of a crew's supervisor that come from the options of the engine and of the crew alone. */
export function crewOptions<E>(
  options: EngineOptions<E>,
  { name, slots, queues, registry, startsApart = false, servesOneOrg = false }: CrewParts,
) {
  const ownName = options.name ?? `${hostname()}:${process.pid}`;
  return {
    profile: options.profile,
    registry,
    slots,
    queues,
    startsApart,
    reservedSlots: servesOneOrg ? 0 : reserveOf(slots, options.reservePercent ?? 0),
    maxResultBytes: options.maxResultBytes ?? DEFAULT_MAX_RESULT_BYTES,
    name: name === '' ? ownName : `${ownName}/${name}`,
    pollMs: options.pollMs ?? 1_000,
    heartbeatMs: options.heartbeatMs,
    exitWhenBlocked: options.exitWhenBlocked ?? true,
  };
}
