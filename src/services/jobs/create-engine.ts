import { Engine, type EngineOptions } from '../../engine/engine.ts';
import { prepareSubmission } from './prepare-submission.ts';

export type EngineParams = Omit<EngineOptions, 'prepare'>;

/** Creates an engine whose schedules and handlers submit jobs by the same rules as every door. */
export const createEngine = (options: EngineParams): Engine => new Engine({ ...options, prepare: prepareSubmission });
