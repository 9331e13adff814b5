import type { ExecutionContext } from '../../../services/execution/context.ts';
import type { Http } from '../../door.ts';
import { callbackSecretRoute } from './callback-secret.ts';
import { changeWebhookRoute } from './change.ts';
import { deleteWebhookRoute } from './delete.ts';
import { getWebhookRoute } from './get.ts';
import { getDeliveryRoute } from './get-delivery.ts';
import { listWebhooksRoute } from './list.ts';
import { listDeliveriesRoute } from './list-deliveries.ts';
import { redeliverRoute } from './redeliver.ts';
import { redeliverFailedRoute } from './redeliver-failed.ts';
import { registerWebhookRoute } from './register.ts';
import { rotateSecretRoute } from './rotate-secret.ts';
import { testWebhookRoute } from './send-test.ts';

/** Everything below `/v1/webhooks`. */
export const WEBHOOK_OPERATIONS: readonly ((http: Http, context: ExecutionContext) => void)[] = [
  ...[registerWebhookRoute, listWebhooksRoute, getWebhookRoute, changeWebhookRoute, deleteWebhookRoute],
  ...[rotateSecretRoute, callbackSecretRoute, testWebhookRoute],
  ...[listDeliveriesRoute, getDeliveryRoute, redeliverRoute, redeliverFailedRoute],
];
