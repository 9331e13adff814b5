// The members of the responses of the operators' API that commands print. The OpenAPI document describes all of them.

type FetchProblem = { readonly code: string; readonly message: string };

export type ItemPage<T> = { readonly items: readonly T[]; readonly next_cursor: string | null };

export type ShownIngestJob = {
  readonly job_id: string;
  readonly job_type: string;
  readonly org: string;
  readonly tenant: string | null;
  readonly status: string;
  readonly resource_completed: number;
  readonly resource_failed: number;
  readonly resource_total: number;
  readonly bytes: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly manifest_key: string | null;
  readonly last_error: FetchProblem | null;
  readonly finalizer: string | null;
};

export type ShownResource = {
  readonly id: string;
  readonly status: string;
  readonly attempts: number;
  readonly http_status: number | null;
  readonly bytes: number | null;
  readonly object_key: string | null;
  readonly error: FetchProblem | null;
};

export type ShownHost = {
  readonly host: string;
  readonly running: number;
  readonly concurrency: number;
  readonly requests: number;
  readonly errors: number;
  readonly bytes: number;
  readonly paused: boolean;
  readonly backoff_until: string | null;
};

export type ShownPool = {
  readonly pool: string;
  readonly paused: boolean;
  readonly addresses: readonly {
    readonly address: string;
    readonly score: number;
    readonly successes: number;
    readonly failures: number;
    readonly ejected_until: string | null;
  }[];
};

/** A host or a pool after its pause or resume. */
export type ShownTarget = { readonly name: string; readonly paused: boolean };

export type AcceptedManifest = { readonly job_id: string; readonly resource_count: number; readonly manifest_key: string };

export type ShownAlert = {
  readonly alert_id: string;
  readonly kind: string;
  readonly severity: string;
  readonly subject: string;
  readonly message: string;
  readonly count: number;
  readonly last_at: string;
  readonly state: string;
  readonly acknowledged_by: string | null;
};

/** A maintenance task. */
export type ShownTask = {
  readonly name: string;
  readonly summary: string;
  readonly state: string;
  readonly paused: boolean;
  readonly last_ended_at: string | null;
  readonly last_removed: number;
  readonly last_error: string | null;
  readonly last_job_id: string | null;
  readonly next_at: string | null;
  readonly lag_seconds: number;
};
