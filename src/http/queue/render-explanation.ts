import type { Static } from 'typebox';
import { formatDuration } from '../../core/duration.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import type { Explanation as Explained } from '../../services/jobs/explain-job.ts';
import { timeOrNull } from './render.ts';
import type { Explanation } from './schemas/explanation.ts';
import { STATE_WORDS } from './words.ts';

export function renderExplanation({ jobId, state, summary, obstacles, facts }: Explained): Static<typeof Explanation> {
  return { job_id: jobId, state: STATE_WORDS[state], summary, obstacles, facts: renderFacts(facts) };
}

function renderFacts(facts: Explained['facts']): Static<typeof Explanation>['facts'] {
  const { typeCap, orgCap, aheadInLine, holder, cancelRequest, heldForChildren } = facts;
  return {
    type: facts.type,
    queue: facts.queue,
    run_at: formatTimestamp(facts.runAt),
    run_in: formatDuration(facts.runInMs),
    unmet_dependencies: facts.unmetDependencies.map(({ id, state }) => ({ job_id: id, state: STATE_WORDS[state] })),
    queue_paused_at: timeOrNull(facts.queuePausedAt),
    type_paused_at: timeOrNull(facts.typePausedAt),
    serving_workers: facts.servingWorkers,
    ...(typeCap === null ? {} : { type_cap: typeCap }),
    ...(orgCap === null ? {} : { org_cap: orgCap }),
    ...(aheadInLine === null ? {} : { ahead_in_line: aheadInLine }),
    ...(holder === null ? {} : { holder: renderHolder(holder) }),
    ...(cancelRequest === null ? {} : { cancel_request: renderRequest(cancelRequest) }),
    ...(heldForChildren === null ? {} : { held_for_children: heldForChildren }),
  };
}

function renderHolder({ workerId, name, host, leaseLeftMs }: NonNullable<Explained['facts']['holder']>) {
  return { worker_id: workerId, name, host, lease_left: formatDuration(leaseLeftMs) };
}

function renderRequest({ requestedAt, force }: NonNullable<Explained['facts']['cancelRequest']>) {
  return { requested_at: formatTimestamp(requestedAt), force };
}
