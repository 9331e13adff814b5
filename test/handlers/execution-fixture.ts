/** The execution API without its door: the real engine, the real handler, and the use-cases called directly. */
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import type { ExecutionSettings } from '../../src/core/execution/settings.ts';
import type { ExecutionState } from '../../src/core/execution/states.ts';
import { PROFILES } from '../../src/core/policy.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { type ExecutionHandlerOptions, executionRegistration } from '../../src/handlers/execution.ts';
import { createExecutionAdmission } from '../../src/services/admission/queue-admission.ts';
import { cancelExecution, retryExecution } from '../../src/services/execution/change-execution.ts';
import type { Caller, ExecutionContext } from '../../src/services/execution/context.ts';
import { reportExecution } from '../../src/services/execution/execution-reports.ts';
import type { ExecutionRequest } from '../../src/services/execution/execution-request.ts';
import { type ExecutionReport, type ExecutionView, readExecution } from '../../src/services/execution/read-execution.ts';
import { type SubmittedExecution, submitExecution } from '../../src/services/execution/submit-execution.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { type TestLedger, useLedger } from '../ledger/fixture.ts';
import { silentTelemetry } from '../telemetry/silent-telemetry.ts';
import { until } from '../until.ts';

export type SimulationOptions = Partial<ExecutionHandlerOptions> & { maxRuntimeMs?: number };

/** Next to no duration, and a timeout that a busy machine does not meet either. */
export const QUICK = { timeScale: 0.001, maxRuntimeMs: 60_000_000 };

type Log = { jobId: string; message: string; fields: Record<string, unknown> };

const REQUEST: ExecutionRequest = {
  type: 'EXECUTE',
  workKind: 'SUCCESS_FAST',
  executionAt: null,
  callback: null,
  idempotencyKey: null,
};

export class Simulation {
  readonly ledger: TestLedger;
  readonly progress: { jobId: string; attempt: number; percent: number }[] = [];
  readonly logs: Log[] = [];
  /** Jobs that this worker was told to leave. */
  readonly lost = new Set<string>();
  #context: ExecutionContext | null = null;
  readonly #options: SimulationOptions;
  readonly #timeScale: number;

  constructor(ledger: TestLedger, options: SimulationOptions) {
    this.ledger = ledger;
    this.#options = options;
    this.#timeScale = options.timeScale ?? 0.01;
  }

  /** A process that takes submissions, as after a restart; it runs nothing before `work`. */
  async open(): Promise<void> {
    const { activeJobs = 1_000, produce } = this.#options;
    const engine = createEngine({ database: this.ledger.db, profile: PROFILES.gopherqueue, concurrency: 50 });
    const registration = executionRegistration({ timeScale: this.#timeScale, activeJobs, produce });
    engine.registry.register(registration);
    engine.events.on('progress', ({ jobId, attempt, percent }) => this.progress.push({ jobId, attempt, percent }));
    engine.events.on('log', ({ jobId, message, fields }) => this.logs.push({ jobId, message, fields }));
    engine.events.on('lost', ({ jobId }) => this.lost.add(jobId));
    await engine.open();
    this.#context = this.#contextOf(engine);
  }

  async work(): Promise<void> {
    await this.context.engine.start();
  }

  async close(): Promise<void> {
    await this.#context?.engine.close(0);
    this.#context = null;
  }

  get context(): ExecutionContext {
    if (this.#context === null) throw new Error('The simulation is not open.');
    return this.#context;
  }

  async newClient(): Promise<Caller> {
    const clientId = await this.ledger.newOrg();
    return { clientId, projectId: null, keyId: 'k1', actor: 'api_key:k1', requestId: randomUUID() };
  }

  async submit(caller: Caller, request: Partial<ExecutionRequest> = {}): Promise<string> {
    return (await this.accept(caller, request)).jobId;
  }

  /** What the submission is answered. */
  accept(caller: Caller, request: Partial<ExecutionRequest> = {}): Promise<SubmittedExecution> {
    return submitExecution(this.context, caller, { ...REQUEST, ...request }, Date.now());
  }

  read(caller: Caller, jobId: string): Promise<ExecutionView> {
    return readExecution(this.context, { caller, jobId });
  }

  report(caller: Caller, jobId: string): Promise<ExecutionReport> {
    return reportExecution(this.context, { caller, jobId });
  }

  cancel(caller: Caller, jobId: string): Promise<{ state: ExecutionState }> {
    return cancelExecution(this.context, { caller, jobId });
  }

  retry(caller: Caller, jobId: string): Promise<{ state: ExecutionState }> {
    return retryExecution(this.context, { caller, jobId });
  }

  /** Answers the job once it is in one of these states. */
  async reached(caller: Caller, jobId: string, ...states: ExecutionState[]): Promise<ExecutionView> {
    await until(
      `job ${jobId} is ${states.join(' or ')}`,
      async () => (await this.read(caller, jobId)).state,
      (state) => states.includes(state),
    );
    return this.read(caller, jobId);
  }

  ended(caller: Caller, jobId: string): Promise<ExecutionView> {
    return this.reached(caller, jobId, 'SUCCEEDED', 'FAILED', 'CANCELED');
  }

  /** The result that the ledger holds. */
  async resultOf(caller: Caller, jobId: string): Promise<unknown> {
    return (await this.ledger.rowOf({ orgId: caller.clientId, id: jobId })).result;
  }

  /** Puts something else in the place of the definition that was stored. */
  async corrupt(caller: Caller, jobId: string, payload: unknown): Promise<void> {
    const text = 'UPDATE millrace.jobs SET payload = $3 WHERE org_id = $1 AND id = $2';
    const { rowCount } = await this.ledger.db.api.query(text, [caller.clientId, jobId, JSON.stringify(payload)]);
    if (rowCount !== 1) throw new Error(`There is no job ${jobId}.`);
  }

  #contextOf(engine: Engine): ExecutionContext {
    const telemetry = silentTelemetry();
    const settings = this.#settings();
    return {
      ...{ engine, telemetry, settings },
      admission: createExecutionAdmission(engine, { queueSize: settings.queueSize }),
      webhooks: {
        ...{ guard: { check: async () => null }, addresses: PUBLIC_ONLY, secretOverlapMs: 0 },
        onQueued() {},
      },
    };
  }

  /** What the program uses when nothing is set, with its times scaled and next to no wait before a retry. */
  #settings(): ExecutionSettings {
    const { maxRuntimeMs = 120_000 } = this.#options;
    const environment = {
      MILLRACE_SIMULATION_TIME_SCALE: String(this.#timeScale),
      MILLRACE_EXECUTION_MAX_RUNTIME: `${maxRuntimeMs}ms`,
      MILLRACE_EXECUTION_BACKOFF_BASE: '1ms',
      MILLRACE_EXECUTION_BACKOFF_MAX: '1ms',
    };
    return loadConfig({ environment, folder: tmpdir() }).config.execution;
  }
}

/** Call once at the top of a test file. Open; at work unless told. */
export function useSimulation(options: SimulationOptions & { isIdle?: boolean } = {}): Simulation {
  const simulation = new Simulation(useLedger(), options);
  beforeAll(async () => {
    await simulation.open();
    if (!options.isIdle) await simulation.work();
  });
  afterAll(() => simulation.close());
  return simulation;
}
