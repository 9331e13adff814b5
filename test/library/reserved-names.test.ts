import { describe, expect, it } from 'vitest';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';
import { useStage } from './fixture.ts';

const stage = useStage();
const invalid = { code: 'INVALID_REQUEST', details: [expect.objectContaining({ code: 'RESERVED_NAME' })] };

describe.each([...RESERVED_NAMES])('%s', (name) => {
  it('is refused wherever the library takes the name of a type', async () => {
    const { millrace } = stage;
    const handler = () => undefined;
    const idle = await stage.open();
    expect(() => idle.register({ type: name, handler })).toThrow(expect.objectContaining({ status: 'INVALID' }));
    await expect(millrace.submit({ type: name, payload: {} })).rejects.toMatchObject(invalid);
    await expect(millrace.queues.capType(name, 1)).rejects.toMatchObject(invalid);
    const schedule = { cron: '@daily', submission: { type: name, payload: {} } };
    await expect(millrace.schedule('plain', schedule)).rejects.toMatchObject(invalid);
  });

  it('is refused as the name of a tag and of a queue', async () => {
    const { millrace } = stage;
    const tags = Object.fromEntries([[name, 'x']]);
    await expect(millrace.submit({ type: 'plain', payload: {}, tags })).rejects.toMatchObject(invalid);
    await expect(millrace.queues.configure(name, { order: 'fair' })).rejects.toMatchObject(invalid);
    await expect(millrace.submit({ type: 'plain', payload: {}, queue: name })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
    });
  });

  it('may be the key of a schedule', async () => {
    const { millrace } = stage;
    await millrace.schedule(name, { cron: '@yearly', submission: { type: 'plain', payload: {} } });
    expect((await millrace.schedules()).map(({ key }) => key)).toContain(name);
    expect(await millrace.unschedule(name)).toBe(true);
  });
});
