import { Engine } from '../../engine/engine.ts';
import type { EngineOptions } from '../../engine/engine-options.ts';
import { prepareSubmission } from './prepare-submission.ts';

export type EngineParams = Omit<EngineOptions<Engine>, 'prepare'>;

/** Creates an engine whose schedules and handlers submit jobs by the same rules as every door. */
export const createEngine = (options: EngineParams): Engine => new Engine({ ...options, prepare: prepareSubmission });
