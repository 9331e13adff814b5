import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../../services/admission/admission.ts';
import { createQueueAdmission } from '../../services/admission/queue-admission.ts';
import type { Door, Http } from '../door.ts';
import { cancelJobRoute } from './cancel-job.ts';
import { cancelJobsRoute } from './cancel-jobs.ts';
import { registerEventRoutes } from './events.ts';
import { explainJobRoute } from './explain-job.ts';
import { getFailureRoute } from './get-failure.ts';
import { getJobRoute } from './get-job.ts';
import { getStatsRoute } from './get-stats.ts';
import { renderError } from './render.ts';
import { retryJobRoute } from './retry-job.ts';
import { CANCELLATION_SHAPES } from './schemas/cancellation.ts';
import { ApiError, ErrorDetail, QuotaError } from './schemas/error.ts';
import { EXPLANATION_SHAPES } from './schemas/explanation.ts';
import { FAILURE_SHAPES } from './schemas/failure.ts';
import { JOB_SHAPES } from './schemas/job.ts';
import { SEARCH_SHAPES } from './schemas/search.ts';
import { STATS_SHAPES } from './schemas/stats.ts';
import { SUBMISSION_SHAPES } from './schemas/submission.ts';
import { searchFailuresRoute } from './search-failures.ts';
import { searchJobsRoutes } from './search-jobs.ts';
import { submitBatchRoute } from './submit-batch.ts';
import { submitJobRoute } from './submit-job.ts';
import { updateJobRoute } from './update-job.ts';

const SHAPES = [
  ...[ErrorDetail, QuotaError, ApiError],
  ...[SUBMISSION_SHAPES, JOB_SHAPES, SEARCH_SHAPES, STATS_SHAPES, CANCELLATION_SHAPES, FAILURE_SHAPES].flat(),
  ...EXPLANATION_SHAPES,
];

const OPERATIONS: readonly ((http: Http, engine: Engine, admission: Admission) => void)[] = [
  ...[submitJobRoute, submitBatchRoute, getJobRoute, searchJobsRoutes, getStatsRoute, cancelJobRoute, cancelJobsRoute],
  ...[getFailureRoute, searchFailuresRoute, retryJobRoute, updateJobRoute, explainJobRoute],
  (http, engine) => registerEventRoutes(http, engine),
];

export type QueueDoorSettings = {
  /** How many jobs may wait for a worker before more are refused. */
  queueSize: number;
};

const QUEUE_SIZE = 100_000;

/** Jobs of an org: submit, read, follow, search, count, cancel, retry. */
export const openQueueDoor = ({ queueSize }: QueueDoorSettings): Door => ({
  prefix: '/queue/v1',
  tag: 'queue',
  description: 'Jobs: submit them, follow them, find them, stop them, and learn why they failed.',
  register(http, engine) {
    const admission = createQueueAdmission(engine, { queueSize });
    for (const shape of SHAPES) http.addSchema(shape);
    for (const register of OPERATIONS) register(http, engine, admission);
  },
  render: renderError,
});

export const queueDoor = openQueueDoor({ queueSize: QUEUE_SIZE });
