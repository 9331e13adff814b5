import { Engine, type EngineOptions } from '../../engine/engine.ts';
import { prepareSubmission } from './prepare-submission.ts';

/** Creates an engine whose schedules and handlers submit jobs by the same rules as every door. */
export const createEngine = (options: Omit<EngineOptions, 'prepare'>): Engine => new Engine({ ...options, prepare: prepareSubmission });
