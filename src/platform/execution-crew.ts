import type { Engine } from '../engine/engine.ts';
import type { Registration } from '../engine/work/registry.ts';
import { type ExecutionHandlerOptions, executionRegistration } from '../handlers/execution.ts';

export type ExecutionCrewParams = ExecutionHandlerOptions & { slots: number; queues?: readonly string[] };

/**
 * Adds the workers for jobs of the execution API. They claim and start a job in two statements, because clients must see it
 * ASSIGNED before it runs, and QUEUED again if its worker dies in between. Call this before the engine starts.
 */
export function addExecutionCrew(engine: Engine, { slots, queues = ['*'], ...work }: ExecutionCrewParams): void {
  const registration = executionRegistration(work) as unknown as Registration;
  // Its only line, at the start, is for the log of the process. The history has the same.
  engine.addCrew({ name: 'execution', slots, queues, registrations: [registration], startsApart: true, storesLogs: false });
}
