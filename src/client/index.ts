export type * from './api-types.ts';
export type { QuotaError as Quota } from './api-types.ts';
export type { ClientArtifacts, ContentOptions, UploadOptions } from './artifacts.ts';
export type { ClientBatches, SubmitBatchOptions, WaitForBatchOptions } from './batches.ts';
export { MillraceClient } from './client.ts';
export type { ClientDeadLetters } from './dead-letters.ts';
export { ApiError, NotFoundError, QuotaError, ValidationError } from './errors.ts';
export type { FollowedEvent, FollowedLine, FollowedNews, FollowedProgress, FollowOptions } from './follow.ts';
export type { ClientOperations, WaitForOperationOptions } from './operations.ts';
export type { CallOptions, ClientOptions } from './transport.ts';
export {
  type VerifyWebhookParams,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookRefusal,
  WebhookVerificationError,
} from './verify-webhook.ts';
export type { WaitOptions } from './wait-for-job.ts';
