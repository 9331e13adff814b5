import type { EngineParams } from './create-engine.ts';
import { traceHandlers } from './trace-handlers.ts';

/** Where every copy of @opentelemetry/api keeps what a program has registered. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

/**
 * If the program has registered OpenTelemetry, its jobs belong to the active trace, and handlers run inside spans. Otherwise nothing is loaded, and
 * no job pays for it.
 */
export async function programTraces(): Promise<Pick<EngineParams, 'wrapHandler' | 'activeTrace'>> {
  if ((globalThis as Record<symbol, unknown>)[REGISTERED] === undefined) return {};
  const { activeTraceparent, programTracer } = await import('../../telemetry/api-tracer.ts');
  return { wrapHandler: traceHandlers(programTracer()), activeTrace: activeTraceparent };
}
