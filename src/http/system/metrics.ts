import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { measureLoad } from '../../services/execution/check-execution-health.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import type { Http } from '../door.ts';

const MEDIA_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const MetricsText = Type.String({ description: 'One line for each number, with its name, labels and value.' });

/** Serves the metrics of the process to Prometheus, without a key like the other probes. */
export function installMetrics(http: Http, { engine, telemetry }: { engine: Engine; telemetry: Telemetry }): void {
  const { metrics } = telemetry;
  const depth = metrics.gauge('job_queue_depth', 'Jobs of /v1 that wait in the queue, over all processes.');
  const workers = metrics.gauge('workers_alive', 'Workers with a recent heartbeat, over all processes.');
  metrics.onScrape(async () => {
    const load = await measureLoad(engine);
    depth.set(load.queueDepth);
    if (load.workers !== null) workers.set(load.workers);
  });
  const schema = {
    operationId: 'getMetrics',
    summary: 'Get the metrics of this process',
    description: 'In the text format of Prometheus, version 0.0.4.',
    tags: ['system'],
    produces: [MEDIA_TYPE],
    response: { 200: { description: 'The metrics.', content: { 'text/plain': { schema: MetricsText } } } },
  };
  http.get('/metrics', { config: { isProbe: true }, schema }, async (_request, reply) => {
    const text = await metrics.text();
    return reply.type(MEDIA_TYPE).send(text);
  });
}
