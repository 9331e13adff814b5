import { isTerminal, type JobState } from '../../core/states.ts';
import { type Reason, TRANSITIONS } from '../../core/transitions.ts';

/** What the row of a job says. */
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

/** Judges one job by its row and its history, without a look at the clock: times of concurrent transactions may cross. */
export function checkHistory(job: CheckedJob): Finding[] {
  return [...checkChain(job.events), ...checkPasses(job.events), ...checkLeases(job.events), ...checkRow(job)];
}

/** I4: numbers without a gap, every pair legal, each event beginning where the one before it ended. */
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

/** I4: a pass from birth or manual retry ends once. I6: nothing starts again without a reason to. */
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

/** I9: the lease that began an attempt ends it before the next begins, and no lease is used for two attempts. */
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

/** I5: the row says what the last event says. I9: and names the holder of the running attempt. */
function* checkRow({ state, eventCount, leaseSeq, workerId, events }: CheckedJob): Generator<Finding> {
  const last = events.at(-1);
  if (last === undefined) {
    yield { invariant: 'I5', what: `the job is ${state} but has no history` };
    return;
  }
  if (last.to !== state) yield { invariant: 'I5', what: `the job is ${state}, its last event says ${last.to}` };
  if (last.n !== eventCount)
    yield { invariant: 'I5', what: `the job counts ${eventCount} events, its last is ${last.n}` };
  if (state !== 'running' || last.to !== 'running') return;
  if (last.leaseSeq !== leaseSeq || (workerId !== null && workerId !== last.workerId)) {
    yield {
      invariant: 'I9',
      what: `lease ${leaseSeq} of worker ${workerId} holds the job that lease ${last.leaseSeq} of worker ${last.workerId} runs`,
    };
  }
}
