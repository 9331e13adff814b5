import { isTerminal, type JobState } from '../../core/states.ts';
import { type Reason, TRANSITIONS } from '../../core/transitions.ts';

/** The row of a job. */
export type CheckedJob = {
  state: JobState;
  eventCount: number;
  leaseSeq: number;
  workerId: number | null;
  events: CheckedEvent[];
};

export type CheckedEvent = {
  n: number;
  from: JobState | null;
  to: JobState;
  reason: Reason;
  leaseSeq: number;
  workerId: number | null;
};

export type Finding = { invariant: 'I4' | 'I5' | 'I6' | 'I9'; what: string };

/** Checks one job by its row and its history. It ignores times, because the times of concurrent transactions may overlap. */
export function checkHistory(job: CheckedJob): Finding[] {
  return [...checkChain(job.events), ...checkPasses(job.events), ...checkLeases(job.events), ...checkRow(job)];
}

/** I4: the numbers have no gap, every transition is legal, and each event begins in the state in which the one before it ended. */
function* checkChain(events: readonly CheckedEvent[]): Generator<Finding> {
  let previous: CheckedEvent | null = null;
  for (const [index, event] of events.entries()) {
    const { n, from, to, reason, leaseSeq } = event;
    if (n !== index + 1) yield { invariant: 'I4', what: `event ${index + 1} has the number ${n}` };
    if (from === null ? previous !== null || to !== 'pending' : !TRANSITIONS[from][to].includes(reason)) {
      yield { invariant: 'I4', what: `event ${n} goes from ${from} to ${to} because of ${reason}` };
    }
    const expected = previous === null ? 'pending' : previous.to;
    if (from !== null && from !== expected) {
      yield { invariant: 'I4', what: `event ${n} starts from ${from}, but the job was ${expected}` };
    }
    if (previous !== null && leaseSeq < previous.leaseSeq) {
      yield { invariant: 'I4', what: `event ${n} carries lease ${leaseSeq} after lease ${previous.leaseSeq}` };
    }
    previous = event;
  }
}

/** I4: each pass, from submission or manual retry, ends once. I6: every further start has a reason. */
function* checkPasses(events: readonly CheckedEvent[]): Generator<Finding> {
  let ends = 0;
  let started = false;
  for (const { n, to, reason } of events) {
    if (reason === 'manual_retry') ends = 0;
    if (isTerminal(to) && ++ends > 1) yield { invariant: 'I4', what: `event ${n} ends a pass that had ended` };
    if (to === 'running') {
      if (started) yield { invariant: 'I6', what: `event ${n} starts the job again though nothing had failed` };
      started = true;
    } else if (to === 'retrying' || reason === 'manual_retry') started = false;
  }
}

/** I9: the lease that started an attempt ends it before the next attempt starts, and no lease serves two attempts. */
function* checkLeases(events: readonly CheckedEvent[]): Generator<Finding> {
  let open: CheckedEvent | null = null;
  let newestLease = 0;
  for (const event of events) {
    if (open !== null && event.leaseSeq !== open.leaseSeq) {
      yield { invariant: 'I9', what: `lease ${event.leaseSeq} acts while lease ${open.leaseSeq} runs the job` };
    }
    if (event.to === 'running' && event.leaseSeq <= newestLease) {
      yield { invariant: 'I9', what: `event ${event.n} starts with lease ${event.leaseSeq}, which is not new` };
    }
    open = event.to === 'running' ? event : null;
    newestLease = Math.max(newestLease, event.leaseSeq);
  }
}

/** I5: the row agrees with the last event. I9: the row names the holder of the running attempt. */
function* checkRow({ state, eventCount, leaseSeq, workerId, events }: CheckedJob): Generator<Finding> {
  const last = events.at(-1);
  if (last === undefined) {
    yield { invariant: 'I5', what: `the job is ${state} but has no history` };
    return;
  }
  if (last.to !== state) yield { invariant: 'I5', what: `the job is ${state}, its last event says ${last.to}` };
  if (last.n !== eventCount) yield { invariant: 'I5', what: `the job counts ${eventCount} events, its last is ${last.n}` };
  if (state !== 'running' || last.to !== 'running') return;
  if (last.leaseSeq !== leaseSeq || (workerId !== null && workerId !== last.workerId)) {
    yield {
      invariant: 'I9',
      what: `lease ${leaseSeq} of worker ${workerId} holds the job that lease ${last.leaseSeq} of worker ${last.workerId} runs`,
    };
  }
}
