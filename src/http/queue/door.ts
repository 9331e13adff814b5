import type { SimulationBounds } from '../../core/simulation.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../../services/admission/admission.ts';
import { createQueueAdmission, type QueueLimits } from '../../services/admission/queue-admission.ts';
import type { Door, Http } from '../door.ts';
import * as auditSchemas from '../shared/audit-schemas.ts';
import { refuseUndeclaredQueries } from '../shared/query-values.ts';
import { shapesIn } from '../shared/shapes.ts';
import { artifactContentRoutes, readArtifactRoutes, uploadArtifactRoute } from './artifacts.ts';
import { listAuditRoute } from './audit.ts';
import { readBatchRoutes, writeBatchRoutes } from './batches.ts';
import { cancelJobRoute, cancelJobsRoute } from './cancel-jobs.ts';
import { retryJobRoute, updateJobRoute } from './change-job.ts';
import { actOnDeadLetterRoutes, readDeadLetterRoutes } from './dead-letters.ts';
import { registerEventRoutes } from './events.ts';
import { explainJobRoute } from './explain-job.ts';
import { getFailureRoute, searchFailuresRoute } from './failures.ts';
import { getStatsRoute } from './get-stats.ts';
import { idempotencyKeyRoute } from './idempotency-keys.ts';
import type { Intake } from './intake.ts';
import { listCategoriesRoute } from './list-categories.ts';
import { controlOperationRoutes, createOperationRoute, readOperationRoutes } from './operations.ts';
import { getJobRoute, searchJobsRoutes } from './read-jobs.ts';
import { readLogsRoute } from './read-logs.ts';
import { renderError } from './render.ts';
import { changeScheduleRoutes, putScheduleRoutes, readScheduleRoutes } from './schedules.ts';
import * as artifactSchemas from './schemas/artifact.ts';
import * as batchSchemas from './schemas/batch.ts';
import * as cancellationSchemas from './schemas/cancellation.ts';
import * as categorySchemas from './schemas/category.ts';
import * as deadLetterSchemas from './schemas/dead-letter.ts';
import * as errorSchemas from './schemas/error.ts';
import * as explanationSchemas from './schemas/explanation.ts';
import * as failureSchemas from './schemas/failure.ts';
import * as idempotencySchemas from './schemas/idempotency.ts';
import * as jobSchemas from './schemas/job.ts';
import * as logSchemas from './schemas/log.ts';
import * as operationSchemas from './schemas/operation.ts';
import * as scheduleSchemas from './schemas/schedule.ts';
import * as searchSchemas from './schemas/search.ts';
import * as statsSchemas from './schemas/stats.ts';
import * as submissionSchemas from './schemas/submission.ts';
import { submitBatchRoute, submitJobRoute } from './submit-jobs.ts';

const SHAPES = [
  ...shapesIn(errorSchemas, submissionSchemas, jobSchemas, searchSchemas, statsSchemas, cancellationSchemas),
  ...shapesIn(failureSchemas, explanationSchemas, scheduleSchemas, logSchemas),
  ...shapesIn(batchSchemas, categorySchemas, auditSchemas),
  ...shapesIn(deadLetterSchemas, operationSchemas),
  ...shapesIn(idempotencySchemas, artifactSchemas),
];

const ROUTES: readonly ((http: Http, engine: Engine, intake: Intake) => void)[] = [
  submitJobRoute,
  submitBatchRoute,
  getJobRoute,
  searchJobsRoutes,
  getStatsRoute,
  cancelJobRoute,
  cancelJobsRoute,
  getFailureRoute,
  searchFailuresRoute,
  retryJobRoute,
  updateJobRoute,
  explainJobRoute,
  readScheduleRoutes,
  putScheduleRoutes,
  changeScheduleRoutes,
  readLogsRoute,
  readBatchRoutes,
  writeBatchRoutes,
  listCategoriesRoute,
  listAuditRoute,
  readDeadLetterRoutes,
  actOnDeadLetterRoutes,
  createOperationRoute,
  readOperationRoutes,
  controlOperationRoutes,
  idempotencyKeyRoute,
  uploadArtifactRoute,
  readArtifactRoutes,
  artifactContentRoutes,
  (http, engine, { orgShare }) => registerEventRoutes(http, engine, { orgShare }),
];

export type QueueDoorOptions = QueueLimits & {
  /** The limit of waiting jobs, if other parts of the process count against it too. */
  readonly admission?: Admission;
  readonly simulation?: SimulationBounds;
};

/** The queue API. It refuses jobs while `queueSize` jobs wait for a worker, or while the org has used its share of them. */
export const openQueueDoor = ({ simulation, ...options }: QueueDoorOptions): Door => ({
  prefix: '/queue/v1',
  tag: 'queue',
  description: 'Submit, schedule, follow, find and cancel jobs, and see why they failed.',
  register(http, engine) {
    const admission = options.admission ?? createQueueAdmission(engine, options);
    for (const shape of SHAPES) http.addSchema(shape);
    refuseUndeclaredQueries(http);
    for (const register of ROUTES) register(http, engine, { admission, simulation, orgShare: options.orgShare });
  },
  render: renderError,
});
