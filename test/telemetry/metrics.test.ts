import { describe, expect, it } from 'vitest';
import type { MetricDefinition } from '../../src/telemetry/catalogue.ts';
import { Metrics, type Sample } from '../../src/telemetry/metrics.ts';

const linesOf = async (metrics: Metrics): Promise<string[]> => (await metrics.text()).split('\n').filter((line) => line !== '');
const define = (name: string, kind: MetricDefinition['kind'], ...labels: string[]): MetricDefinition => ({
  name,
  kind,
  labels,
  help: 'H.',
});

describe('metrics', () => {
  it('are written as Prometheus reads them', async () => {
    const metrics = new Metrics();
    const requests = metrics.counter(define('requests_total', 'counter', 'route', 'status'));
    requests.inc({ route: '/a', status: 200 });
    requests.inc({ route: '/a', status: 200 }, 2);
    requests.inc({ route: '/b', status: 404 });
    metrics.gauge(define('depth', 'gauge')).set(3.5);
    expect(await linesOf(metrics)).toEqual([
      '# HELP requests_total H.',
      '# TYPE requests_total counter',
      'requests_total{route="/a",status="200"} 3',
      'requests_total{route="/b",status="404"} 1',
      '# HELP depth H.',
      '# TYPE depth gauge',
      'depth 3.5',
    ]);
  });

  it('are there with zero from the start where they have no labels', async () => {
    const metrics = new Metrics();
    metrics.counter(define('jobs_total', 'counter'));
    metrics.counter(define('errors_total', 'counter', 'code'));
    const lines = await linesOf(metrics);
    expect(lines).toContain('jobs_total 0');
    expect(lines.at(-1)).toBe('# TYPE errors_total counter');
  });

  it('escape what would break a line, also where the values are read from elsewhere', async () => {
    const metrics = new Metrics();
    const name = 'a"b\\c\nd';
    metrics.counter(define('x_total', 'counter', 'name')).inc({ name });
    metrics.collected(define('y_total', 'counter', 'name'), () => [{ labels: { name }, value: 1 }]);
    const lines = await linesOf(metrics);
    for (const metric of ['x_total', 'y_total']) expect(lines).toContain(`${metric}{name="a\\"b\\\\c\\nd"} 1`);
  });

  it('show the lines of a histogram that was counted elsewhere', async () => {
    const metrics = new Metrics();
    const samples: Sample[] = [
      { suffix: '_bucket', labels: { le: '1' }, value: 2 },
      { suffix: '_sum', labels: {}, value: 0.5 },
    ];
    metrics.collected(define('took_seconds', 'histogram'), () => samples);
    expect(await linesOf(metrics)).toEqual([
      '# HELP took_seconds H.',
      '# TYPE took_seconds histogram',
      'took_seconds_bucket{le="1"} 2',
      'took_seconds_sum 0.5',
    ]);
  });

  it('are the same when they are asked for again, and refused when they differ', async () => {
    const metrics = new Metrics();
    metrics.counter(define('x_total', 'counter', 'a')).inc({ a: 1 });
    metrics.counter(define('x_total', 'counter', 'a')).inc({ a: 1 });
    expect(await linesOf(metrics)).toContain('x_total{a="1"} 2');
    expect(() => metrics.counter(define('x_total', 'counter'))).toThrow('x_total');
    expect(() => metrics.gauge(define('x_total', 'gauge', 'a'))).toThrow('x_total');
  });

  it('read values that are counted elsewhere, and leave them out when the read fails', async () => {
    const metrics = new Metrics();
    const depth = metrics.gauge(define('depth', 'gauge'));
    metrics.onScrape(async () => {
      throw new Error('away');
    });
    metrics.onScrape(async () => depth.set(5));
    expect(await linesOf(metrics)).toContain('depth 5');
  });
});
