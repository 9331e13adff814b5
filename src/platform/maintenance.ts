import type { Config } from '../config/load-config.ts';
import type { Engine } from '../engine/engine.ts';
import type { JobContext } from '../engine/work/job-context.ts';
import type { Registration } from '../engine/work/registry.ts';
import { maintenanceRegistration } from '../handlers/maintenance.ts';
import { eraseArtifactObjects, eraseIngestObjects } from '../services/maintenance/erase-objects.ts';
import { eraseOrgs } from '../services/maintenance/erase-orgs.ts';
import type { TaskSteps } from '../services/maintenance/maintenance-task.ts';
import { putTasks } from '../services/maintenance/put-tasks.ts';
import { runTask } from '../services/maintenance/run-task.ts';
import { taskSteps } from '../services/maintenance/task-steps.ts';
import type { Deliveries } from './deliveries.ts';
import type { Ingest } from './ingest.ts';

type Parts = { readonly config: Config; readonly deliveries: Deliveries; readonly ingest: Ingest };

/** Maintenance as jobs: its handler, which must be registered before its parts exist, and its schedules. */
export class Maintenance {
  readonly #engine: Engine;
  readonly registration: Registration;
  #steps: TaskSteps | null = null;

  constructor(engine: Engine) {
    this.#engine = engine;
    const registration = maintenanceRegistration<JobContext>((task) => {
      if (this.#steps === null) throw new Error('Maintenance runs before its parts exist.');
      return runTask({ database: engine.database, steps: this.#steps }, task);
    });
    this.registration = registration as unknown as Registration;
  }

  /** Call it before the engine starts. */
  equip({ config, deliveries, ingest }: Parts): void {
    const engine = this.#engine;
    const { context, store } = ingest;
    const { retention, settings } = config.ingest;
    this.#steps = taskSteps({
      engine,
      ingest: context,
      retention: { ...retention, revokedKeysMs: config.execution.revokedKeysMs, alertsMs: config.alerts.retentionMs },
      pruneDeliveries: () => deliveries.prune(),
      sweepUploads: () => ingest.sweepUploads(),
      eraseOrgs: () =>
        eraseOrgs({
          engine,
          objects: [
            (erasure) => eraseIngestObjects({ engine, store, settings }, erasure),
            (erasure) => eraseArtifactObjects({ store, bucket: config.artifacts.bucket }, erasure),
          ],
        }),
    });
  }

  /** Sets up the schedules that are missing. */
  start(): Promise<void> {
    return putTasks(this.#engine);
  }
}
