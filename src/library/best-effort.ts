import { checkMembers } from '../core/known-members.ts';
import type { Submission } from '../core/submission.ts';
import { enqueueBestEffort, type LostNotification } from '../services/jobs/enqueue-best-effort.ts';
import type { SubmissionResult } from '../services/jobs/submission-result.ts';
import { OPTIONS, queryable, type SubmitOptions } from './call-options.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OpenParts } from './open-parts.ts';

/** A notification. The category may be left out. */
export type NotificationSubmission = Omit<Submission, 'category'> & {
  /** Only `notification`. */
  readonly category?: 'notification' | null;
};

/** What became of a notification. */
export type BestEffortResult = SubmissionResult | LostNotification;

/** Enqueues a notification, and never fails the write of its caller. */
export type EnqueueBestEffort = (submission: NotificationSubmission, options?: SubmitOptions) => Promise<BestEffortResult>;

/** The call of an instance, which enqueues for its org. */
export const bestEffortOf =
  ({ engine, orgId }: Pick<OpenParts, 'engine' | 'orgId'>, calls: OpenCalls): EnqueueBestEffort =>
  (submission, options = {}) =>
    calls.run(async () => {
      checkMembers(options, OPTIONS.submit);
      return enqueueBestEffort(engine, { orgId, submission, client: queryable(options) });
    });
