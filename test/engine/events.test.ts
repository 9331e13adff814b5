import { expect, it } from 'vitest';
import { EventHub, type JobFacts } from '../../src/engine/events.ts';

const job = (type: string): JobFacts => ({ jobId: 'a', type, attempt: 1, orgId: 'b', tags: null, createdAtMs: 0 });

it('a listener for one type hears of jobs of that type only, and others are not asked for', () => {
  const events = new EventHub();
  const heard: string[] = [];
  expect(events.hasListeners('lost', 'mine')).toBe(false);
  const stop = events.onType('lost', 'mine', ({ type }) => heard.push(type));
  expect(events.hasListeners('lost', 'mine')).toBe(true);
  for (const other of ['other', '', '__proto__', 'constructor', 'mine:']) {
    expect(events.hasListeners('lost', other)).toBe(false);
    events.emit('lost', job(other));
  }
  events.emit('lost', job('mine'));
  events.emit('cancelled', job('mine'));
  expect(heard).toEqual(['mine']);
  stop();
  events.emit('lost', job('mine'));
  expect(heard).toEqual(['mine']);
  expect(events.hasListeners('lost', 'mine')).toBe(false);
});

it('a listener for all jobs hears of each once, beside a listener for one type', () => {
  const events = new EventHub();
  const heard: string[] = [];
  events.on('lost', ({ type }) => heard.push(type));
  events.onType('lost', 'mine', () => {
    throw new Error('the listener failed');
  });
  const errors: string[] = [];
  events.on('error', ({ where }) => errors.push(where));
  for (const type of ['mine', 'other']) events.emit('lost', job(type));
  expect(heard).toEqual(['mine', 'other']);
  expect(errors).toEqual(['listener of lost']);
});
