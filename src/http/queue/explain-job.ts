import type { Static } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Engine } from '../../engine/engine.ts';
import { type Explanation as Explained, explainJob } from '../../services/jobs/explain-job.ts';
import type { Http } from '../door.ts';
import { callerOf, needs, noSuchJob } from './operation.ts';
import { timeOrNull } from './render.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { Explanation } from './schemas/explanation.ts';
import { JobParams } from './schemas/shapes.ts';
import { STATE_WORDS } from './words.ts';

const schema = {
  operationId: 'explainJob',
  summary: 'Explain why a job is not running',
  description: 'Returns the reasons why a job is not running as one sentence, as a list of obstacles and as facts.',
  params: JobParams,
  response: { 200: answer(Explanation, 'The explanation.'), ...errorResponses(404) },
};

export function explainJobRoute(http: Http, engine: Engine): void {
  http.get('/jobs/:id/explain', { schema, ...needs('jobs:read') }, async (request) => {
    const explanation = await explainJob(engine, { ...callerOf(request).owner, id: request.params.id, hidesNames: true });
    if (explanation === null) throw noSuchJob(request.params.id);
    return renderExplanation(explanation);
  });
}

function renderExplanation({ jobId, state, summary, obstacles, facts }: Explained): Static<typeof Explanation> {
  return { job_id: jobId, state: STATE_WORDS[state], summary, obstacles, facts: renderFacts(facts) };
}

function renderFacts(facts: Explained['facts']): Static<typeof Explanation>['facts'] {
  const { typeCap, orgCap, aheadInLine, share, holder, cancelRequest, heldForChildren, limit } = facts;
  return {
    type: facts.type,
    queue: facts.queue,
    run_at: formatTimestamp(facts.runAt),
    run_in: formatDuration(facts.runInMs),
    unmet_dependencies: facts.unmetDependencies.map(({ id, state }) => ({ job_id: id, state: STATE_WORDS[state] })),
    queue_paused_at: timeOrNull(facts.queuePausedAt),
    queue_draining_at: timeOrNull(facts.queueDrainingAt),
    ...(facts.queueCap === null ? {} : { queue_concurrency: facts.queueCap.cap }),
    ...(facts.queueRate === null ? {} : { queue_rate: facts.queueRate.rate }),
    type_paused_at: timeOrNull(facts.typePausedAt),
    serving_workers: facts.servingWorkers,
    ...(typeCap === null ? {} : { type_cap: typeCap }),
    ...(orgCap === null ? {} : { org_cap: orgCap }),
    ...(aheadInLine === null ? {} : { ahead_in_line: aheadInLine }),
    ...(share === null ? {} : { share: renderShare(share) }),
    ...(holder === null ? {} : { holder: renderHolder(holder) }),
    ...(cancelRequest === null ? {} : { cancel_request: renderRequest(cancelRequest) }),
    ...(heldForChildren === null ? {} : { held_for_children: heldForChildren }),
    ...(limit === null ? {} : { limit: renderLimit(limit) }),
  };
}

function renderLimit({ key, concurrency, rate, perMs, running, runningIds, started, ahead }: NonNullable<Explained['facts']['limit']>) {
  const per = perMs === null ? null : formatDuration(perMs);
  return { key, concurrency, rate, per, running, running_ids: [...runningIds], started, ahead };
}

function renderShare({ slots, ownSlots, openSlots, reservedSlots, waitingOrgs }: NonNullable<Explained['facts']['share']>) {
  return { slots, own_slots: ownSlots, open_slots: openSlots, reserved_slots: reservedSlots, waiting_orgs: waitingOrgs };
}

function renderHolder({ workerId, name, host, leaseLeftMs }: NonNullable<Explained['facts']['holder']>) {
  return { worker_id: workerId, name, host, lease_left: formatDuration(leaseLeftMs) };
}

function renderRequest({ requestedAt, force }: NonNullable<Explained['facts']['cancelRequest']>) {
  return { requested_at: formatTimestamp(requestedAt), force };
}
