// The workload of the peers' bench on the public library.
import { builtPackage } from './built-package.ts';

type Payload = Record<string, unknown>;

export async function open({ pgUrl }: { pgUrl: string }) {
  const { Millrace } = await builtPackage();
  const millrace = await Millrace.open({ database: pgUrl, concurrency: 64 });
  return {
    submit: (payload: Payload) => millrace.submit({ type: 'noop', payload }),
    submitBatch: (payloads: Payload[]) => millrace.submitMany(payloads.map((payload) => ({ type: 'noop', payload }))),
    async work(onJob: (payload: Payload) => Promise<void>, _options: { concurrency: number }) {
      millrace.register({ type: 'noop', handler: (_context, payload: Payload) => onJob(payload) });
      await millrace.start();
    },
    close: () => millrace.close({ grace: '1s' }),
  };
}
