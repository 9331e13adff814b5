import type { SimulationBounds } from '../../core/simulation.ts';
import type { Admission } from '../../services/admission/admission.ts';

/** What the door demands of the submissions of its callers. */
export type Intake = {
  readonly admission: Admission;
  /** The most that a simulated job may ask for. */
  readonly simulation?: SimulationBounds;
  /** The part of a shared limit that one org may use while it is alone. */
  readonly orgShare?: number;
};
