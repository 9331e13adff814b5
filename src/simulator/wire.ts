/** The responses of the execution API, with the members that the simulator reads. */
import type { ExecutionType, WorkKind } from '../core/execution/kinds.ts';
import type { ExecutionOutcome, ExecutionState } from '../core/execution/states.ts';

/** The members of an error response. */
export type Problem = {
  readonly code?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly field: string }[];
};

export type Accepted = { readonly job_id: string } & Problem;

export type Changed = { readonly state: ExecutionState; readonly attempt?: number } & Problem;

type Definition = {
  readonly work_kind: WorkKind;
  readonly duration_ms: number;
  readonly should_fail: boolean;
  readonly payload_size: number;
};

type Failure = { readonly code: string; readonly message: string; readonly retryable: boolean };

export type JobView = {
  readonly job_id: string;
  readonly type: ExecutionType;
  readonly state: ExecutionState;
  readonly outcome: ExecutionOutcome | null;
  readonly execution_at: string | null;
  readonly attempt: number;
  readonly definition: Definition | null;
  readonly started_at: string | null;
  /** In percent. */
  readonly progress: number | null;
  readonly failure?: Failure | null;
} & Problem;

export type EventView = {
  readonly event_id: string;
  readonly job_id: string;
  readonly event_name: string;
  readonly prev_state: ExecutionState | null;
  readonly next_state: ExecutionState;
  readonly timestamp: string;
  readonly scenario: WorkKind;
};

export type ReportView = {
  readonly job_id: string;
  readonly outcome: ExecutionOutcome;
  readonly events: readonly EventView[];
  readonly started_at: string | null;
  readonly finished_at: string;
  readonly duration_ms: number;
  readonly failure?: Failure | null;
} & Problem;

/** A row of `GET /v1/reports?events=true`. */
export type ReportRow = Omit<JobView, 'definition' | 'progress'> & {
  readonly work_kind: WorkKind | null;
  readonly finished_at: string | null;
  readonly duration_ms: number | null;
  readonly events: readonly EventView[];
};

export type CallbackView = { readonly webhook_id: string; readonly url: string };

export type CallbackPage = {
  readonly webhooks: readonly CallbackView[];
  readonly next_cursor: string | null;
} & Problem;

export type DeliveryView = {
  readonly message_id: string;
  readonly event: string;
  readonly state: 'queued' | 'delivering' | 'retrying' | 'delivered' | 'failed';
  readonly attempts: readonly {
    readonly verdict: string;
    readonly status: number | null;
    readonly error_code: string | null;
    readonly duration_ms: number;
  }[];
  readonly ended_at: string | null;
};

export type DeliveryPage = { readonly deliveries?: readonly DeliveryView[] } & Problem;
