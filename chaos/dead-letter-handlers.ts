/** Orders that fail in three ways, as their payload says. An order without a wrong member completes. */
import { TemporaryError } from '../src/core/handler-errors.ts';

type Order = { n: number; currency?: string; address?: { street?: string }; provider?: string };

export const handlers = {
  order(_context: unknown, { n, currency = 'EUR', address = { street: 'a' }, provider = 'up' }: Order): string {
    if (currency !== 'EUR') throw new TemporaryError(`order ${n}: "${currency}" is no currency`, { code: 'WRONG_CURRENCY' });
    if (address.street === undefined) throw new TemporaryError(`order ${n} has no street`, { code: 'NO_STREET' });
    if (provider !== 'up')
      throw new TemporaryError(`provider '${provider}' did not answer within ${100 + (n % 50)} ms`, { code: 'PROVIDER_DOWN' });
    return 'shipped';
  },
};
