import type { Engine } from '../engine/engine.ts';
import type { Registration } from '../engine/work/registry.ts';
import { type ExecutionHandlerOptions, executionRegistration } from '../handlers/execution.ts';

export type ExecutionCrewParams = ExecutionHandlerOptions & { slots: number; queues?: readonly string[] };

/**
 * The worker for jobs of the execution API. Its clients are promised to see a job ASSIGNED before it runs, and QUEUED again
 * should its worker die in between: it starts apart what it claimed. Must precede the start of the engine.
 */
export function addExecutionCrew(engine: Engine, { slots, queues = ['*'], ...work }: ExecutionCrewParams): void {
  const registration = executionRegistration(work) as unknown as Registration;
  engine.addCrew({ name: 'execution', slots, queues, registrations: [registration], startsApart: true });
}
