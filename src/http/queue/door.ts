import type { SimulationBounds } from '../../core/simulation.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../../services/admission/admission.ts';
import { createQueueAdmission, type QueueLimits } from '../../services/admission/queue-admission.ts';
import type { Door, Http } from '../door.ts';
import { shapesIn } from '../shared/shapes.ts';
import { cancelJobRoute, cancelJobsRoute } from './cancel-jobs.ts';
import { retryJobRoute, updateJobRoute } from './change-job.ts';
import { registerEventRoutes } from './events.ts';
import { explainJobRoute } from './explain-job.ts';
import { getFailureRoute, searchFailuresRoute } from './failures.ts';
import { getStatsRoute } from './get-stats.ts';
import type { Intake } from './intake.ts';
import { getJobRoute, searchJobsRoutes } from './read-jobs.ts';
import { renderError } from './render.ts';
import * as cancellationSchemas from './schemas/cancellation.ts';
import * as errorSchemas from './schemas/error.ts';
import * as explanationSchemas from './schemas/explanation.ts';
import * as failureSchemas from './schemas/failure.ts';
import * as jobSchemas from './schemas/job.ts';
import * as searchSchemas from './schemas/search.ts';
import * as statsSchemas from './schemas/stats.ts';
import * as submissionSchemas from './schemas/submission.ts';
import { submitBatchRoute, submitJobRoute } from './submit-jobs.ts';

const SHAPES = [
  ...shapesIn(errorSchemas, submissionSchemas, jobSchemas, searchSchemas, statsSchemas, cancellationSchemas),
  ...shapesIn(failureSchemas, explanationSchemas),
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
  description: 'Submit, follow, find and cancel jobs, and see why they failed.',
  register(http, engine) {
    const admission = options.admission ?? createQueueAdmission(engine, options);
    for (const shape of SHAPES) http.addSchema(shape);
    for (const register of ROUTES) register(http, engine, { admission, simulation, orgShare: options.orgShare });
  },
  render: renderError,
});
