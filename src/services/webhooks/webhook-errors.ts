import { AppError, type Issue } from '../../core/errors.ts';

export const noSuchWebhook = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Webhook ${id.slice(0, 100)} does not exist.`,
    problem: 'RFA_WEBHOOK_NOT_FOUND',
  });

export const noSuchDelivery = (id: string): AppError =>
  new AppError('NOT_FOUND', {
    message: `Delivery ${id.slice(0, 100)} of this webhook does not exist.`,
    problem: 'RFA_WEBHOOK_NOT_FOUND',
  });

export const webhookConflict = (message: string): AppError =>
  new AppError('CONFLICT', { message, problem: 'RFA_WEBHOOK_CONFLICT' });

export const registeredTwice = (): AppError =>
  webhookConflict('These events are sent to this URL by another webhook already.');

export function invalidWebhook(details: readonly Issue[]): AppError {
  const more = details.length > 1 ? ` (and ${details.length - 1} more)` : '';
  return new AppError('INVALID_REQUEST', { message: `${details[0]?.message}${more}`, details });
}
