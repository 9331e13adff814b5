// Generated from the OpenAPI document by scripts/generate-client-types.ts. Do not edit: run that script.
// biome-ignore-all format: as the generator writes it

export type JobState = 'PENDING' | 'DELAYED' | 'SCHEDULED' | 'RUNNING' | 'RETRYING' | 'COMPLETED' | 'FAILED' | 'DEAD_LETTER' | 'CANCELLED';

export type Priority = 'CRITICAL' | 'HIGH' | 'NORMAL' | 'LOW' | 'BULK';

export type FailureCategory = 'TEMPORARY' | 'PERMANENT' | 'TIMEOUT' | 'SYSTEM';

export type ErrorDetail = {
  /** The member it is about. */
  field: string;
  /** Machine-readable. */
  code: string;
  /** Human-readable. */
  message: string;
};

/** The limit that was hit; beside it the answer has a Retry-After header. */
export type QuotaError = {
  /** Which limit was exceeded. */
  limit: string;
  /** Current usage. */
  current: number;
  /** Maximum allowed. */
  maximum: number;
  /** When to try again. An ISO 8601 duration. */
  retry_after: string;
};

export type APIError = {
  /** Machine-readable; match this, not the message. */
  code: string;
  /** Human-readable. */
  message: string;
  /** One entry for each thing wrong with the request. */
  details: ErrorDetail[];
  /** Also in the X-Request-Id header. */
  request_id: string;
  quota?: QuotaError;
};

export type BackoffConfig = {
  /** CUSTOM needs a worker that has registered a function for the type. */
  strategy?: 'CONSTANT' | 'LINEAR' | 'EXPONENTIAL' | 'CUSTOM' | null;
  /** First retry delay. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  initial_delay?: string | number | null;
  /** Maximum retry delay. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  max_delay?: string | number | null;
  /** For exponential backoff. */
  multiplier?: number | null;
  /** Spread retries at random around their time. */
  jitter?: boolean | null;
};

export type JobSubmission = {
  /** What to do; maps to a handler. */
  type: string;
  /** A JSON object as it is, or bytes as {"$bytes": "<base64>"}. At most 1 MB decoded unless configured. */
  payload: Record<string, unknown>;
  /** CRITICAL needs a key with the scope queue:critical. */
  priority?: Priority | null;
  /** Delay before execution starts; not together with scheduled_at. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  delay?: string | number | null;
  /** Absolute time to start execution; not together with delay. ISO 8601 with any offset. */
  scheduled_at?: string | null;
  /** Max execution time of an attempt. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  timeout?: string | number | null;
  max_attempts?: number | null;
  backoff?: BackoffConfig | null;
  /** A repeat with the same key and content gives the first job. */
  idempotency_key?: string | null;
  /** For tracing; the id of the request unless given. */
  correlation_id?: string | null;
  /** Labels: at most 50, names up to 128 and values up to 256 characters. */
  tags?: Record<string, string> | null;
  /** Jobs that must end first. */
  depends_on?: string[] | null;
  /** AFTER unless given. */
  dependency_type?: 'AFTER' | 'AFTER_ANY' | 'CHAIN' | null;
  /** Told when the job has ended: http or https. */
  callback_url?: string | null;
  /** q:default unless given. One of q:critical, q:default, q:notifications, q:planning, q:exports, q:maintenance, or one that an operator configured; any other is refused. q:critical needs the scope queue:critical. */
  queue?: string | null;
  /** Kept with the job and shown. */
  category?: string | null;
  /** A UUID. With a key that is bound to a project, that one. */
  project_id?: string | null;
  /** W3C Trace Context; the header traceparent unless given. */
  traceparent?: string | null;
  /** May be given, and must then be the org of the key. */
  org_id?: string | null;
};

export type SubmissionResult = {
  /** A job id, assigned by the system. */
  job_id: string;
  status: 'ACCEPTED' | 'DUPLICATE';
  /** Where the job is in its life. */
  state: JobState;
  /** When the job was created. */
  created_at: string;
  /** When the job becomes eligible; null while dependencies are unmet. */
  scheduled_for: string | null;
  /** For DUPLICATE: the job of the first request. */
  existing_job_id?: string;
};

export type BatchSubmission = {
  jobs: JobSubmission[];
  /** All or none; otherwise the valid ones. */
  atomic?: boolean;
};

export type SubmissionError = {
  code: string;
  message: string;
  details: ErrorDetail[];
};

/** A SubmissionResult; a rejected job has no id. */
export type BatchSubmissionResult = {
  /** Null for REJECTED. */
  job_id: string | null;
  status: 'ACCEPTED' | 'DUPLICATE' | 'REJECTED';
  state: JobState | null;
  /** Null for REJECTED. */
  created_at: string | null;
  /** When the job becomes eligible. */
  scheduled_for: string | null;
  /** For DUPLICATE. */
  existing_job_id?: string;
  error?: SubmissionError;
};

export type BatchResult = {
  /** Jobs submitted. */
  total: number;
  /** Jobs accepted, repeats of earlier requests included. */
  accepted: number;
  /** Jobs rejected. */
  rejected: number;
  /** One per job, in the order given. */
  results: BatchSubmissionResult[];
};

export type ProgressInfo = {
  percent: number;
  /** Current activity. */
  message: string | null;
  /** When progress was reported. */
  updated_at: string;
};

export type ErrorInfo = {
  category: FailureCategory;
  code: string;
  message: string;
  /** Only for keys with the scope failures:read. */
  stack_trace?: string;
};

export type JobResult = {
  status: 'SUCCESS' | 'FAILURE';
  /** What the handler returned; bytes as {"$bytes": "<base64>"}. */
  output?: unknown;
  error?: ErrorInfo;
  /** Execution time of the attempt. */
  duration_ms: number;
  /** Which attempt produced the result. */
  attempt: number;
};

export type StateTransition = {
  /** Null for the birth of a job that waits. */
  from_state: JobState | null;
  /** Where the job is in its life. */
  to_state: JobState;
  /** When it happened. */
  timestamp: string;
  /** Why it happened. */
  reason: string;
};

export type JobStatus = {
  /** A job id, assigned by the system. */
  job_id: string;
  type: string;
  /** Where the job is in its life. */
  state: JobState;
  /** The current attempt, from 1; grows when an attempt starts. */
  attempt: number;
  /** When the job was submitted. */
  created_at: string;
  /** When its state last changed. */
  updated_at: string;
  /** The earliest start; null while dependencies are unmet. */
  scheduled_for: string | null;
  /** Start of the newest attempt; null if never started. */
  started_at: string | null;
  /** When the job ended; null if it has not. */
  completed_at: string | null;
  progress?: ProgressInfo;
  result?: JobResult;
  /** With include_history, oldest first. */
  history?: StateTransition[];
  /** CRITICAL needs a key with the scope queue:critical. */
  priority: Priority;
  /** Labels: at most 50, names up to 128 and values up to 256 characters. */
  tags: Record<string, string>;
  /** As given, else the id of the request. */
  correlation_id: string;
  /** Of the request that submitted the job: its X-Request-Id. */
  request_id: string;
  /** As submitted. */
  category: string | null;
  /** The project of the org that the job belongs to. */
  project_id: string | null;
  /** W3C Trace Context: the span that asked for the job. */
  traceparent: string | null;
  /** When the job last became ready for workers. */
  scheduled_at: string | null;
  queue: string;
  max_attempts: number;
  /** As submitted. */
  idempotency_key: string | null;
  /** Told when the job has ended. */
  callback_url: string | null;
  /** Jobs it waits or waited for. */
  depends_on: string[];
  dependency_type: 'AFTER' | 'AFTER_ANY' | 'CHAIN' | null;
  /** The job that spawned it. */
  parent_id: string | null;
  /** When a running job was asked to stop. */
  cancel_requested_at: string | null;
};

/** What stays open to change until the job ends. Null clears a member, absent members stay. */
export type JobUpdate = {
  /** Only before the first attempt, and only a type that is known. */
  type?: string;
  /** CRITICAL needs a key with the scope queue:critical. */
  priority?: Priority;
  /** Labels: at most 50, names up to 128 and values up to 256 characters. */
  tags?: Record<string, string> | null;
  correlation_id?: string | null;
  callback_url?: string | null;
};

/** All filters are optional and combined with AND. */
export type JobSearch = {
  /** Job types to include. */
  types?: string[];
  /** States to include. */
  states?: JobState[];
  /** Priorities to include. */
  priorities?: Priority[];
  /** Created after this time. ISO 8601 with any offset. */
  created_after?: string;
  /** Created before this time. ISO 8601 with any offset. */
  created_before?: string;
  /** State changed after this time. ISO 8601 with any offset. */
  updated_after?: string;
  /** Every tag named must be there with exactly this value. */
  tags?: Record<string, string>;
  /** The next_cursor of the page before. Opaque. */
  cursor?: string;
  /** Page size. */
  limit?: number;
  /** CREATED_DESC unless given. */
  order?: 'CREATED_ASC' | 'CREATED_DESC' | 'UPDATED_DESC';
};

/** A JobSearch. Without limit all jobs that match are meant, with it one page of them. */
export type JobSelection = {
  /** Job types to include. */
  types?: string[];
  /** States to include. */
  states?: JobState[];
  /** Priorities to include. */
  priorities?: Priority[];
  /** Created after this time. ISO 8601 with any offset. */
  created_after?: string;
  /** Created before this time. ISO 8601 with any offset. */
  created_before?: string;
  /** State changed after this time. ISO 8601 with any offset. */
  updated_after?: string;
  /** Every tag named must be there with exactly this value. */
  tags?: Record<string, string>;
  /** The next_cursor of the page before. Opaque. */
  cursor?: string;
  /** Only one page of this size. */
  limit?: number;
  /** CREATED_DESC unless given. */
  order?: 'CREATED_ASC' | 'CREATED_DESC' | 'UPDATED_DESC';
};

export type JobSearchResult = {
  jobs: JobStatus[];
  /** How many match. At most 5 000 jobs are looked at to count them, 1 000 where a filter names them; beyond that it is an estimate. */
  total_count: number;
  total_is_estimate: boolean;
  /** The cursor of the next page; null on the last. */
  next_cursor: string | null;
  has_more: boolean;
};

export type Counts = {
  /** PENDING, SCHEDULED, DELAYED and RETRYING. */
  pending: number;
  /** RUNNING. */
  running: number;
  /** COMPLETED within the time range. */
  completed: number;
  /** FAILED and DEAD_LETTER within the time range. */
  failed: number;
};

/** Null members when nothing was measured within the time range. */
export type LatencyStats = {
  /** The median. An ISO 8601 duration. */
  p50: string | null;
  /** The 90th percentile. An ISO 8601 duration. */
  p90: string | null;
  /** The 99th percentile. An ISO 8601 duration. */
  p99: string | null;
  /** The longest. An ISO 8601 duration. */
  max: string | null;
};

export type QueueStats = {
  /** Jobs that wait for other jobs. */
  pending: number;
  /** Jobs ready for workers. */
  scheduled: number;
  /** Jobs executing now. */
  running: number;
  /** Jobs that wait for their time. */
  delayed: number;
  /** Jobs that wait for their next attempt. */
  retrying: number;
  /** Within the time range. */
  completed: number;
  /** Within the time range. */
  failed: number;
  /** Within the time range. */
  dead_letter: number;
  /** Within the time range. */
  cancelled: number;
  /** Jobs submitted per second. */
  submission_rate: number;
  /** Jobs completed per second. */
  completion_rate: number;
  /** Jobs failed or dead-lettered per second. */
  failure_rate: number;
  queue_latency: LatencyStats;
  execution_time: LatencyStats;
  /** If asked for with breakdown_by. */
  by_type?: Record<string, Counts>;
  /** If asked for with breakdown_by. */
  by_priority?: {
    CRITICAL?: Counts;
    HIGH?: Counts;
    NORMAL?: Counts;
    LOW?: Counts;
    BULK?: Counts;
  };
  /** If asked for with breakdown_by. */
  by_state?: {
    PENDING?: Counts;
    DELAYED?: Counts;
    SCHEDULED?: Counts;
    RUNNING?: Counts;
    RETRYING?: Counts;
    COMPLETED?: Counts;
    FAILED?: Counts;
    DEAD_LETTER?: Counts;
    CANCELLED?: Counts;
  };
};

export type CancellationRequest = {
  /** Why; kept in the history. */
  reason?: string;
  /** Interrupt a running handler. Otherwise it is asked to stop at its next checkpoint. */
  force?: boolean;
};

export type CancellationResult = {
  /** A job id, assigned by the system. */
  job_id: string;
  previous_state: JobState | null;
  /** Additional context. */
  message: string;
  status: 'CANCELLED' | 'ALREADY_COMPLETE' | 'CANCEL_REQUESTED';
};

/** A CancellationResult and an APIError in one. */
export type CancellationNotFound = {
  /** A job id, assigned by the system. */
  job_id: string;
  previous_state: JobState | null;
  /** Human-readable. */
  message: string;
  /** Machine-readable; match this, not the message. */
  code: string;
  /** One entry for each thing wrong with the request. */
  details: ErrorDetail[];
  /** Also in the X-Request-Id header. */
  request_id: string;
  status: 'NOT_FOUND';
};

/** Either job_ids or filter. */
export type BatchCancellation = {
  /** Specific jobs. */
  job_ids?: string[];
  filter?: JobSelection;
  /** Why; kept in the history. */
  reason?: string;
  /** Interrupt a running handler. Otherwise it is asked to stop at its next checkpoint. */
  force?: boolean;
  /** Count what would happen; change nothing. */
  dry_run?: boolean;
};

export type CancellationError = {
  job_id: string;
  code: string;
  message: string;
};

export type BatchCancellationResult = {
  /** Jobs targeted. */
  requested: number;
  /** Cancelled, or running and asked to stop. */
  cancelled: number;
  /** Already terminal. */
  skipped: number;
  /** Not cancelled; see errors. */
  failed: number;
  errors: CancellationError[];
  dry_run: boolean;
};

export type FailureInfo = {
  /** The attempt that failed; 0 if the job failed without one. */
  attempt: number;
  /** When it failed. */
  timestamp: string;
  duration_ms: number;
  category: FailureCategory;
  code: string;
  message: string;
  /** Only for keys with the scope failures:read. */
  stack_trace?: string;
  context: Record<string, string>;
  /** Which worker ran this. */
  worker_id: string | null;
  /** On which host. */
  host: string | null;
};

export type AttemptInfo = {
  attempt: number;
  /** When the attempt began. */
  started_at: string;
  /** When the attempt ended. */
  finished_at: string;
  result: 'SUCCESS' | 'FAILURE' | 'TIMEOUT' | 'CANCELLED';
  failure?: FailureInfo;
};

export type FailureDetails = {
  /** A job id, assigned by the system. */
  job_id: string;
  type: string;
  /** Null of a job that went on: it waits for its next attempt, runs again, or ended otherwise. */
  final_state: 'FAILED' | 'DEAD_LETTER' | null;
  total_attempts: number;
  failure: FailureInfo;
  /** With include_all_attempts, oldest first. */
  attempts?: AttemptInfo[];
};

export type TimeRange = {
  /** Inclusive. ISO 8601 with any offset. */
  from?: string;
  /** Exclusive. ISO 8601 with any offset. */
  to?: string;
};

export type Pagination = {
  /** The next_cursor of the page before. Opaque. */
  cursor?: string;
  /** Page size. */
  limit?: number;
};

/** All filters are optional and combined with AND. */
export type FailureSearch = {
  states?: ('FAILED' | 'DEAD_LETTER' | 'RETRYING')[];
  failure_category?: FailureCategory[];
  /** Job types to include. */
  types?: string[];
  /** Exactly this code. */
  error_code?: string;
  time_range?: TimeRange;
  pagination?: Pagination;
};

export type FailureSearchResult = {
  /** Newest failure first. */
  failures: FailureDetails[];
  /** How many match; at least so many if total_is_estimate. */
  total_count: number;
  /** The org has more failures than are looked at: the counts here are of the newest 5 000. */
  total_is_estimate: boolean;
  /** The cursor of the next page; null on the last. A page before it may hold fewer than asked for. */
  next_cursor: string | null;
  /** Matching jobs by category. */
  by_category: Record<string, number>;
  /** Matching jobs by code. */
  by_code: Record<string, number>;
  /** Matching jobs by type. */
  by_type: Record<string, number>;
};

export type RetryRequest = {
  /** Begin to count attempts anew. */
  reset_attempts?: boolean;
  /** CRITICAL needs a key with the scope queue:critical. */
  priority?: Priority;
  /** Delay before the retry. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  delay?: string | number;
};

export type RetryResult = {
  /** A job id, assigned by the system. */
  job_id: string;
  new_state: JobState | null;
  /** When the job becomes eligible. */
  scheduled_for: string | null;
  status: 'QUEUED' | 'NOT_RETRIABLE';
};

/** A RetryResult and an APIError in one. */
export type RetryNotFound = {
  /** A job id, assigned by the system. */
  job_id: string;
  new_state: JobState | null;
  /** When the job becomes eligible. */
  scheduled_for: string | null;
  /** Machine-readable; match this, not the message. */
  code: string;
  /** Human-readable. */
  message: string;
  /** One entry for each thing wrong with the request. */
  details: ErrorDetail[];
  /** Also in the X-Request-Id header. */
  request_id: string;
  status: 'NOT_FOUND';
};

export type Cap = {
  cap: number;
  /** Jobs that count against it now. */
  live: number;
};

export type Holder = {
  worker_id: number;
  name: string;
  host: string;
  /** How long the lease lasts without another heartbeat. An ISO 8601 duration. */
  lease_left: string;
};

export type CancelRequest = {
  /** When. */
  requested_at: string;
  force: boolean;
};

export type JobFacts = {
  type: string;
  queue: string;
  /** The earliest start. */
  run_at: string;
  /** How long until then. An ISO 8601 duration. */
  run_in: string;
  unmet_dependencies: {
    job_id: string;
    /** Where the job is in its life. */
    state: JobState;
  }[];
  /** When its queue was paused. */
  queue_paused_at: string | null;
  /** When its type was paused. */
  type_paused_at: string | null;
  type_cap?: Cap;
  org_cap?: Cap;
  /** Workers that are alive and take this type from this queue. */
  serving_workers: number;
  /** Ready jobs before it; 10 001 means more than 10 000. */
  ahead_in_line?: number;
  holder?: Holder;
  cancel_request?: CancelRequest;
  /** Jobs it spawned and waits for before it completes. */
  held_for_children?: number;
};

export type Explanation = {
  /** A job id, assigned by the system. */
  job_id: string;
  /** Where the job is in its life. */
  state: JobState;
  /** One sentence a person can act on. */
  summary: string;
  /** What keeps it, in the order in which it would have to be removed. */
  obstacles: {
    code: string;
    message: string;
  }[];
  facts: JobFacts;
};

/** The data of an event named job.<state>, for example job.completed. */
export type JobEvent = {
  /** A job id, assigned by the system. */
  job_id: string;
  type: string;
  /** Null for the birth of a job that waits. */
  from_state: JobState | null;
  /** Where the job is in its life. */
  to_state: JobState;
  /** When it happened. */
  timestamp: string;
  /** Why it happened. */
  reason: string;
  /** The current attempt, from 1. */
  attempt: number;
  /** The place of the event in the history of its job: 1, 2, 3 ... */
  sequence: number;
};

/** The data of an event named error, the last of a stream. */
export type StreamError = {
  /** Why the stream ends. */
  code: string;
  message: string;
  /** Where to resume. */
  last_event_id: string;
};

export type ListJobsQuery = {
  /** Job types to include. */
  types?: string[];
  /** States to include. */
  states?: JobState[];
  /** Priorities to include. */
  priorities?: Priority[];
  /** Created after this time. ISO 8601 with any offset. */
  created_after?: string;
  /** Created before this time. ISO 8601 with any offset. */
  created_before?: string;
  /** State changed after this time. ISO 8601 with any offset. */
  updated_after?: string;
  /** Tags to match, each as name:value, split at the first colon. Repeat for several. A name with a colon or a value with a comma needs the POST form. */
  tags?: string[];
  /** The next_cursor of the page before. Opaque. */
  cursor?: string;
  /** Page size. */
  limit?: number;
  /** CREATED_DESC unless given. */
  order?: 'CREATED_ASC' | 'CREATED_DESC' | 'UPDATED_DESC';
};

export type GetJobQuery = {
  /** Add the result, once there is one. */
  include_result?: boolean;
  /** Add every change of state. */
  include_history?: boolean;
};

export type GetStatsQuery = {
  /** Repeat for several. */
  breakdown_by?: ('TYPE' | 'PRIORITY' | 'STATE')[];
  /** History to include; one hour unless given. An ISO 8601 duration such as PT5M, or an integer of seconds such as 300. */
  time_range?: string | number;
};

export type GetFailureQuery = {
  /** Add every attempt. */
  include_all_attempts?: boolean;
};

export type FollowEventsQuery = {
  /** Only jobs of this type. Repeat for several. */
  type?: string[];
  /** Only changes to this state. Repeat for several. */
  state?: JobState[];
  /** Only this job. Repeat for several. */
  job_id?: string[];
  /** The id of the last event received. The stream goes on after it. */
  last_event_id?: string;
};

export type FollowJobQuery = {
  /** The id of the last event received. The stream goes on after it. */
  last_event_id?: string;
};
