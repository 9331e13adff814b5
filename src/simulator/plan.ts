import { mulberry32 } from '../core/execution/definition.ts';
import { type Drive, type ExecutionType, KINDS, type WorkKind } from '../core/execution/kinds.ts';

/** One planned scenario, which submits one or more jobs. */
export type PlannedJob = {
  readonly no: number;
  readonly kind: WorkKind;
  readonly type: ExecutionType;
  /** The index of the client that submits it. */
  readonly client: number;
  /** The idempotency key. Further jobs of the scenario have keys derived from it. */
  readonly key: string;
  /** The delay from the submission to the due time; null for a job that is due immediately. */
  readonly executionInMs: number | null;
};

/** `each` takes the kinds in turn; `mix` draws them by weight. */
export type Choice =
  | { readonly order: 'each'; readonly kinds: readonly WorkKind[] }
  | { readonly order: 'mix'; readonly weights: ReadonlyMap<WorkKind, number> };

export type PlanOptions = {
  readonly choice: Choice;
  readonly clients: number;
  /** Infinity if a duration limits the run. */
  readonly jobs: number;
  readonly seed: number;
  readonly farFutureMs: number;
};

const DUE_IN_MS = 2_000;
/** Long enough to stop a server before the job is due. */
const DUE_AFTER_STOP_MS = 4_000;
const SHORTEST_FAR_MS = 10_000;

/** The scenarios in order. The same options give the same plan. */
export function* planRun(options: PlanOptions): Generator<PlannedJob, void> {
  const random = mulberry32(options.seed);
  const kinds = drawKinds(options.choice, random);
  for (let no = 0; no < options.jobs; no++) {
    const { kind, round } = kinds.next().value;
    const client = no % options.clients;
    const type = typeOf({ kind, turn: options.choice.order === 'each' ? round : Math.floor(random() * 6) });
    const executionInMs = type === 'DEFERRED' ? dueIn(KINDS[kind].drive, options.farFutureMs) : null;
    yield { no, kind, type, client, key: `job-${no}`, executionInMs };
  }
}

type Drawn = { kind: WorkKind; round: number };

function* drawKinds(choice: Choice, random: () => number): Generator<Drawn, never> {
  for (let round = 0; ; round++) {
    if (choice.order === 'each') for (const kind of choice.kinds) yield { kind, round };
    else yield { kind: byWeight(choice.weights, random()), round };
  }
}

function byWeight(weights: ReadonlyMap<WorkKind, number>, chance: number): WorkKind {
  const entries = [...weights];
  let left = chance * entries.reduce((sum, [, weight]) => sum + weight, 0);
  const found = entries.find(([, weight]) => {
    left -= weight;
    return left < 0;
  });
  return (found ?? (entries.at(-1) as [WorkKind, number]))[0];
}

/** Cycles through the types that the kind allows, `EXECUTE` first. */
function typeOf({ kind, turn }: { kind: WorkKind; turn: number }): ExecutionType {
  const { types } = KINDS[kind];
  return types[turn % types.length] as ExecutionType;
}

function dueIn(drive: Drive, farFutureMs: number): number {
  if (drive === 'deferred_far') return Math.max(SHORTEST_FAR_MS, farFutureMs);
  return drive === 'deferred_restart' ? DUE_AFTER_STOP_MS : DUE_IN_MS;
}
