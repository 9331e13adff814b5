import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { exposeLedger } from '../../services/metrics/expose-ledger.ts';
import { LedgerGauge } from '../../services/metrics/measure-ledger.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Http } from '../door.ts';

const MetricsText = Type.String({ description: 'One line for each number, with its name, labels and value.' });

type MetricsParts = {
  engine: Pick<Engine, 'database'>;
  telemetry: Telemetry;
  /** How long what was read from the database is shown again; default: a second. */
  freshMs?: number;
};

/** Serves the metrics of the process and of the ledger to Prometheus, without a key like the other probes. */
export function installMetrics(http: Http, { engine, telemetry, freshMs }: MetricsParts): void {
  const { metrics } = telemetry;
  exposeLedger(metrics, new LedgerGauge(engine, freshMs));
  const schema = {
    operationId: 'getMetrics',
    summary: 'Get the metrics of this process and of all jobs',
    description: 'In the text format of Prometheus, version 0.0.4.',
    tags: ['system'],
    produces: [metrics.contentType],
    response: { 200: { description: 'The metrics.', content: { 'text/plain': { schema: MetricsText } } } },
  };
  http.get('/metrics', { config: { isProbe: true }, schema }, async (_request, reply) => {
    const text = await metrics.text();
    return reply.type(metrics.contentType).send(text);
  });
}
