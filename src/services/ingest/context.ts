import type { IngestHandler } from '../../core/ingest/handler.ts';
import type { IngestJobType, IngestSettings } from '../../core/ingest/job-type.ts';
import type { ManifestStore } from '../../core/ingest/object-port.ts';
import type { Policy } from '../../core/policy.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Admission } from '../admission/admission.ts';

/** The parts that the use-cases of the ingest API need. */
export type IngestContext = {
  readonly engine: Engine;
  readonly settings: IngestSettings;
  readonly store: ManifestStore;
  /** The limit of waiting jobs. */
  readonly admission: Admission;
  /** The policy of downloads. */
  readonly policy: Policy;
  /** The policy of the last step of a job. */
  readonly finalPolicy: Policy;
  /** The handler of a job type. */
  handlerOf(jobType: IngestJobType): IngestHandler;
  /** Looks at these jobs soon: their tasks have changed. */
  onChanged(jobIds: readonly string[]): void;
};

/** Who submits a manifest. */
export type IngestCaller = {
  readonly orgId: string;
  /** The tenant header of the request. */
  readonly tenant: string | null;
  readonly actor: string;
  readonly requestId: string;
  /** The span that the downloads belong to. */
  readonly traceparent: string | null;
  /** The address of the client. */
  readonly peer: string;
};
