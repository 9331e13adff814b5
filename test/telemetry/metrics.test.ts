import { describe, expect, it } from 'vitest';
import { Metrics } from '../../src/telemetry/metrics.ts';

const linesOf = async (metrics: Metrics): Promise<string[]> => (await metrics.text()).trimEnd().split('\n');

describe('metrics', () => {
  it('are written as Prometheus reads them', async () => {
    const metrics = new Metrics();
    const requests = metrics.counter('requests_total', 'Requests.', ['route', 'status']);
    requests.add({ route: '/a', status: 200 });
    requests.add({ route: '/a', status: 200 }, 2);
    requests.add({ route: '/b', status: 404 });
    metrics.gauge('depth', 'How deep.').set(3.5);
    expect(await metrics.text()).toBe(
      [
        '# HELP requests_total Requests.',
        '# TYPE requests_total counter',
        'requests_total{route="/a",status="200"} 3',
        'requests_total{route="/b",status="404"} 1',
        '# HELP depth How deep.',
        '# TYPE depth gauge',
        'depth 3.5',
        '',
      ].join('\n'),
    );
  });

  it('count an observation in every bucket whose bound it does not exceed', async () => {
    const metrics = new Metrics();
    const seconds = metrics.histogram('took_seconds', 'Time.', [0.1, 1], ['kind']);
    for (const value of [0.05, 0.1, 0.5, 7]) seconds.observe(value, { kind: 'x' });
    expect((await linesOf(metrics)).slice(2)).toEqual([
      'took_seconds_bucket{kind="x",le="0.1"} 2',
      'took_seconds_bucket{kind="x",le="1"} 3',
      'took_seconds_bucket{kind="x",le="+Inf"} 4',
      'took_seconds_sum{kind="x"} 7.65',
      'took_seconds_count{kind="x"} 4',
    ]);
  });

  it('are there with zero from the start where they have no labels', async () => {
    const metrics = new Metrics();
    metrics.counter('jobs_total', 'Jobs.');
    metrics.counter('errors_total', 'Errors.', ['code']);
    const lines = await linesOf(metrics);
    expect(lines).toContain('jobs_total 0');
    expect(lines.at(-1)).toBe('# TYPE errors_total counter');
  });

  it('escape what would break a line', async () => {
    const metrics = new Metrics();
    metrics.counter('x_total', 'One\\two\nthree.', ['name']).add({ name: 'a"b\\c\nd' });
    const lines = await linesOf(metrics);
    expect(lines[0]).toBe('# HELP x_total One\\\\two\\nthree.');
    expect(lines[2]).toBe('x_total{name="a\\"b\\\\c\\nd"} 1');
  });

  it('are the same when they are asked for again, and refused when they differ', async () => {
    const metrics = new Metrics();
    metrics.counter('x_total', 'X.', ['a']).add({ a: 1 });
    metrics.counter('x_total', 'X.', ['a']).add({ a: 1 });
    expect(await linesOf(metrics)).toContain('x_total{a="1"} 2');
    expect(() => metrics.counter('x_total', 'X.')).toThrow('x_total');
    expect(() => metrics.gauge('x_total', 'X.', ['a'])).toThrow('x_total');
  });

  it('read values that are counted elsewhere, and leave them out when the read fails', async () => {
    const metrics = new Metrics();
    const depth = metrics.gauge('depth', 'Depth.');
    metrics.onScrape(async () => {
      throw new Error('away');
    });
    metrics.onScrape(async () => depth.set(5));
    expect(await linesOf(metrics)).toContain('depth 5');
  });
});
